package k0rdent

import "github.com/kplan-dev/kplan/foreign"

// repository is what to do with what a repository wants.
const repository = "declare the repository under repositories of the plan, with its login and files"

// losses are what is lost with fields of k0rdent, and what to do about it.
var losses = foreign.Losses{
	"...stopOnConflict":       {What: "whether another owner of a release stops the service is not imported", Hint: "kplan says who owns an object, and takes it over only with take_ownership"},
	"...continueOnError":      {What: "whether others go on after a failure is not imported", Hint: "steps that need no failed one go on in any case"},
	"...templateResourceRefs": {What: "objects that values are rendered with are not read", Hint: "read them by variables with secret or config_map"},
	"...driftIgnore":          {What: "what may drift is not imported", Hint: "drift: ignore of a helm step looks at nothing; fields that controllers own are left alone in any case"},
	"...driftExclusions":      {What: "what may drift is not imported", Hint: "drift: ignore of a helm step looks at nothing; fields that controllers own are left alone in any case"},
	"...provider":             {What: "kplan itself installs the services", Hint: "nothing is to be done, unless it names a cloud's registry: log in before"},
	"...policyRefs":           {What: "other policies of Sveltos are not imported", Hint: "apply their objects by steps"},
	"...helmHooks":            {What: "hooks of the service are not imported", Hint: "make steps of them"},
	"spec.secretRef":          {What: "the login of the repository is not imported", Hint: repository},
	"spec.certSecretRef":      {What: "certificates for the repository are not imported", Hint: repository},
	"spec.proxySecretRef":     {What: "the proxy is not imported", Hint: "set HTTPS_PROXY where kplan runs"},
	"spec.helm":               {What: "the template is used by no service of the files", Hint: "nothing is to be done"},
	"spec.kustomize":          {What: "templates of kustomize are not imported", Hint: "apply its folder by a step: apply: {kustomize: FOLDER}"},
	"spec.resources":          {What: "templates of objects are not imported", Hint: "apply them by a step"},
	"spec.url":                {What: "the source is used by no service of the files", Hint: "nothing is to be done"},
	"...verify":               {What: "the signature of the chart is not verified", Hint: "give the step verify: {cosign: {key: FILE}}"},
	"...upgradeOptions":       {What: "options of upgrades are not imported", Hint: "see what a helm step of a plan can say"},
	"...ipamClaim":            {What: "the addresses of the cluster stay with k0rdent", Hint: "nothing is to be done"},
}
