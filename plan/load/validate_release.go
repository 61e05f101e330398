package load

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/names"
)

// maxHistory is far more revisions than anybody keeps: each is a Secret.
const maxHistory = 10_000

// reservedLabels are those that Helm gives to its records itself
// (helm.sh/helm/v3 pkg/storage/driver/util.go).
var reservedLabels = []string{"name", "owner", "status", "version", "createdAt", "modifiedAt"}

var (
	kubeVersion = regexp.MustCompile(`^v?\d+\.\d+(\.\d+)?([-+][-+.0-9A-Za-z]+)?$`)
	apiVersion  = regexp.MustCompile(`^([-.a-z0-9]+/)?v\d+[a-z0-9]*(/[A-Z][A-Za-z0-9]*)?$`)
)

// checkReleaseOptions looks at what a step says beyond its chart and values.
func (v stepValidator) checkReleaseOptions(h plan.Helm, at path) {
	v.checkReuse(h, at)
	v.checkReleaseLabels(h.Labels, at.Key("labels"))
	v.checkSetFile(h.SetFile, at.Key("set_file"))
	inRange(v.validator, at.Key("max_history"), h.MaxHistory, 0, maxHistory, "it is how many revisions are kept; 0 keeps all")
	if h.SkipCRDs && h.CRDs != "" && h.CRDs != plan.SkipCRDs {
		v.Report(fault{At: at.Key("crds"), Hint: "remove skip_crds, which means crds: skip"}, "skip_crds is true, but crds is %s", h.CRDs)
	}
	if h.WaitForJobs && (h.Wait == plan.WaitNone || h.Wait == plan.WaitHooks) {
		v.ReportField(fault{At: at.Key("wait_for_jobs"), Hint: "write wait: ready, or remove it"}, "wait_for_jobs is of no use with wait: %s", h.Wait)
	}
	if h.KubeVersion != "" && !kubeVersion.MatchString(h.KubeVersion) {
		v.Report(fault{At: at.Key("kube_version"), Hint: "write such as 1.31.0"}, "%q is not a version of Kubernetes", document.Cut(h.KubeVersion, 80))
	}
	for i, a := range h.APIVersions {
		if a != "" && !apiVersion.MatchString(a) {
			v.Report(fault{At: at.Key("api_versions").Index(i), Hint: "write GROUP/VERSION or GROUP/VERSION/KIND, such as batch/v1/CronJob"}, "%q is not an API version", document.Cut(a, 80))
		}
	}
}

// checkReuse wants at most one way to treat the values of the last revision.
func (v stepValidator) checkReuse(h plan.Helm, at path) {
	first := ""
	for _, way := range []struct {
		field string
		is    bool
	}{{"reset_values", h.ResetValues}, {"reuse_values", h.ReuseValues}, {"reset_then_reuse_values", h.ResetThenReuseValues}} {
		switch {
		case way.is && first != "":
			v.ReportField(fault{At: at.Key(way.field), Hint: "keep one of them"}, "%s and %s exclude each other", first, way.field)
		case way.is:
			first = way.field
		}
	}
}

// checkReleaseLabels knows what Helm takes as a label of a release.
func (v stepValidator) checkReleaseLabels(labels map[string]string, at path) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		prefix, name, slash := strings.Cut(key, "/")
		if !slash {
			prefix, name = "", key
		}
		switch {
		case slices.Contains(reservedLabels, key):
			v.ReportField(fault{At: at.Key(key), Hint: "take another name; Helm's own are " + strings.Join(reservedLabels, ", ")}, "the label %q is Helm's own", key)
		case prefix == "kplan.dev":
			v.ReportField(fault{At: at.Key(key), Hint: "take another name"}, "the label %q is kplan's own", document.Cut(key, 80))
		case !names.IsTag(name, 63) || slash && !names.IsSubdomain(prefix, names.MaxSubdomain):
			v.ReportField(fault{At: at.Key(key), Hint: "use letters, digits, -, _ and ., at most 63"}, "%q cannot be a label", document.Cut(key, 80))
		case labels[key] != "" && !names.IsTag(labels[key], 63):
			v.Report(fault{At: at.Key(key), Hint: "use letters, digits, -, _ and ., at most 63"}, "%q cannot be the value of a label", document.Cut(labels[key], 80))
		}
	}
}

// checkSetFile wants a file for each name.
func (v stepValidator) checkSetFile(files map[string]string, at path) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == "" {
			v.ReportField(fault{At: at.Key(name), Hint: "write the value's name, such as tls.ca"}, "the name of a value is empty")
		}
		v.checkText(at.Key(name), "the path of "+document.Cut(name, 80), "")
	}
}
