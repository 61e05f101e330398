package lint

import (
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/finding"
)

// rule is something that a plan should not do, and how to find it.
type rule struct {
	check func(*pass)
	finding.Rule
}

// Rules returns all rules, by ID.
func Rules() []finding.Rule {
	all := make([]finding.Rule, len(rules))
	for i, r := range rules {
		all[i] = r.Rule
	}
	return all
}

// Find returns the rule with an ID.
func Find(id string) (finding.Rule, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.ID == id })
	if i < 0 {
		return finding.Rule{}, false
	}
	return rules[i].Rule, true
}

// rules is filled by init: the rule of comments asks which rules there are.
var rules []rule

func init() {
	rules = slices.Concat(fieldRules(), stepRules())
	slices.SortFunc(rules, func(a, b rule) int { return strings.Compare(a.ID, b.ID) })
}

// fieldRules look at what is written in one place.
func fieldRules() []rule {
	return []rule{
		{checkIgnores, finding.Rule{
			ID: "bad-ignore", Severity: finding.Warning,
			Summary: "a comment kplan:ignore names no rule",
			Explanation: `A comment "# kplan:ignore ID reason" on a line, or alone on the line above, silences the rule ID there. With a mistyped ID it ` +
				`silences nothing, and whoever reads it believes the opposite. Mend the ID: kplan lint --list shows all.`,
		}},
		{checkFiled, finding.Rule{
			ID: "expression-in-file", Severity: finding.Error,
			Summary: "an expression in a file that is sent as it is",
			Explanation: `Expressions are evaluated in the plan only. A file of an apply step or of values_files is sent as it is, so that ` +
				`"${{ vars.name }}" arrives in the cluster as this very text. Write the object under apply.objects of the plan, or the value under values of the ` +
				`step: there they are evaluated. Expressions that read nothing of a plan, such as those of other tools' workflows, are left alone.`,
		}},
		{checkRetryUninstalls, finding.Rule{
			ID: "retry-uninstalls", Severity: finding.Warning,
			Summary: "what an attempt achieved is undone before the next one",
			Explanation: `With install_retries above 1 and on_failure uninstall, every attempt removes what it made before the next one begins. If the ` +
				`install fails because an operator or a webhook is not up yet, the operator is removed just before it would have come up, and no number of ` +
				`attempts ever succeeds. on_failure rollback does the same to an upgrade; of a first install there is nothing to go back to, so it is kept, which ` +
				`is seldom what was meant. Write on_failure: keep, which retries in place, or install_retries: 1.`,
		}},
		{checkPlainSecrets, finding.Rule{
			ID: "secret-in-values", Severity: finding.Error,
			Summary: "a password, token or key is written down in plain text",
			Explanation: `A value whose name says that it is a password, token or key, or that is a private key, a token of a well-known service, an address or an option with a password, is plain text in the plan, its values files or ` +
				`objects. It is in version control for ever, in every fork and backup, and shows in the release's values. Take it from a variable with sensitive: true ` +
				`and env: or secret:, or let the chart use a Secret that exists. A Secret object with its data in a file is a warning: it is at least what ` +
				`Kubernetes expects; External Secrets or SOPS keep the data elsewhere. The line is not shown.`,
		}},
		{checkPins, finding.Rule{
			ID: "unpinned-chart", Severity: finding.Warning,
			Summary: "a chart from afar has no exact version",
			Explanation: `Without a version, or with a constraint such as ^1.2 or 1.x, a run takes whatever is newest at that moment. The plan that was tested is ` +
				`not the plan that runs next week, and a retry may install another chart than the first attempt. Write the exact version (1.2.3), or let the ` +
				`reference end in such a tag or in @sha256:…; bots such as Renovate keep it fresh.`,
		}},
		{checkUnread, finding.Rule{
			ID: "unread-step", Severity: finding.Warning,
			Summary: "what a step sends cannot be looked at",
			Explanation: `A chart cannot be fetched, or does not render with the values that the plan gives it. A run fails then, unless the chart asks the cluster ` +
				`for something that no lint can know; kplan validate --cluster renders it for the cluster. The rules know nothing of the step's objects, so that no ` +
				`finding on them means nothing. Mend the values, or give the chart what it asks for. Charts that --offline leaves out are no findings.`,
		}},
		{checkUnusedVars, finding.Rule{
			ID: "unused-var", Severity: finding.Warning,
			Summary: "a variable that nothing reads",
			Explanation: `A variable is declared and no expression reads it. Who sets it on the command line believes that it does something. Mostly the ` +
				`expression has a literal in its place, or the last use went away in a change. Use the variable or remove it.`,
		}},
		{checkYAML, finding.Rule{
			ID: "yaml-1.1", Severity: finding.Warning,
			Summary: "a plain value that YAML 1.1 reads as something else",
			Explanation: `Kubernetes and Helm read YAML 1.1: no, off and n are false, the country NO among them; 010 is 8, 0x10 is 16, 1_000 is 1000, 1e3 and ` +
				`1.10 are numbers, so that a version 1.10 arrives as 1.1, and a commit 12e3 as 12000. 12:30 is text here, and the number 750 to readers ` +
				`that know base 60. Quote what is meant as text; write true, false and decimal numbers otherwise. Octal file modes such as 0644 under a key that ` +
				`ends in mode are left alone. Labels, annotations, the data of ConfigMaps and the environment of containers take text only: there any ` +
				`number or boolean is an error, for the API server refuses the object.`,
		}},
	}
}

// stepRules look at what steps do to each other.
func stepRules() []rule {
	return []rule{
		{checkCRDs, finding.Rule{
			ID: "crd-beside-resource", Severity: finding.Error,
			Summary: "a custom resource does not wait for the step that brings its CRD",
			Explanation: `One step brings a CustomResourceDefinition and another one objects of its kind, and nothing orders the two. A run waits for the kind, ` +
				`but in the step's own time, which goes by while the other step has not even begun; and should that one fail, this one waits in vain to its end. ` +
				`Let the step with the objects need the one with the CRD.`,
		}},
		{checkOwnChart, finding.Rule{
			ID: "guarded-in-own-chart", Severity: finding.Note,
			Summary: "a chart brings a webhook that fails closed together with objects that it judges",
			Explanation: `A chart has an operator, the operator's webhook with failurePolicy Fail, and objects that the webhook judges. Helm sends the objects ` +
				`seconds after the operator's Deployment, when nobody listens yet: "failed calling webhook … connection refused", on a first install or, where Helm ` +
				`sends the webhook last, on the run after a failed one. kplan holds such requests until the webhook answers; Helm alone, Argo or Flux do not. Better ` +
				`is a chart of its own for the objects, or a value that leaves them out and an apply step behind a webhook step. So it is a note, which --strict does not count, and an error where hold is false.`,
		}},
		{checkSecrets, finding.Rule{
			ID: "secret-before-certificate", Severity: finding.Warning,
			Summary: "pods use the Secret of a Certificate, and nothing waits for it",
			Explanation: `A Deployment, StatefulSet, DaemonSet, Job, CronJob, ReplicaSet or Pod reads a Secret that cert-manager makes for a Certificate of the same plan. ` +
				`Until the issuer has answered there is no Secret: pods hang with "MountVolume.SetUp failed … secret not found" or CreateContainerConfigError. The ` +
				`kubelet never gives up, but tries again only every two minutes in the end, so the step's wait or the rollout's progress deadline runs out while ` +
				`all is well. Put a wait step on the Certificate (condition=Ready) in between, which kplan lint --fix does. "wait: ready" of the step with the ` +
				`Certificate is not enough: a Certificate that cert-manager has not looked at yet has no conditions, and counts as ready. An init container alone ` +
				`does not help a mounted Secret: the kubelet mounts all volumes before it starts the first one. It does if the volume is optional, as kplan lint ` +
				`--fix=init-container makes it; that also helps those who apply the file without kplan.`,
		}},
		{checkOwners, finding.Rule{
			ID: "two-owners", Severity: finding.Error,
			Summary: "two steps manage one release or one object",
			Explanation: `Two steps install a release of the same name in one namespace, or send the same object. Each run undoes with one what it did with the ` +
				`other; side by side, Helm says "another operation is in progress" or "cannot be imported into the current release", and server-side apply removes ` +
				`the fields that only the other one sets. Give the object to one of the steps. Hooks of charts are a warning, and only if the steps may run side by ` +
				`side; so are objects that are the same in both steps. A step that needs the other one on failure stands in for it, and is left alone.`,
		}},
		{checkUnguarded, finding.Rule{
			ID: "unguarded", Severity: finding.Error,
			Summary: "objects that an earlier step's webhook judges are sent without hold and gate",
			Explanation: `A step sends objects that a webhook of an earlier step judges, with failurePolicy Fail, while holding is switched off and no webhook ` +
				`step is in between. Helm has said the operator is ready, but its webhook listens some seconds later: the request fails with "failed calling ` +
				`webhook", on some runs. Remove webhooks.hold: false, or put a webhook step between the two. Of webhooks that may be called it is a warning.`,
		}},
		{checkWaits, finding.Rule{
			ID: "wait-never-true", Severity: finding.Error,
			Summary: "a wait for a condition that the kind never has",
			Explanation: `A wait step names a condition that no controller sets on objects of this kind, such as Ready on a Deployment (it has Available), or any ` +
				`on a ConfigMap. It waits until its timeout, every time, whatever the cluster does. So does one for a status that is not True, False or Unknown. Conditions of kinds that are not known here are left alone. ` +
				`Name a condition that there is, or look at a field with jsonpath={.status…}.`,
		}},
	}
}
