package argocd

import "github.com/kplan-dev/kplan/foreign"

// toOverlay is what to do with options of kustomize.
const toOverlay = "write it into a kustomization.yaml, and name its folder in apply.kustomize"

// losses are what is lost with fields of Applications, and what to do about it.
var losses = foreign.Losses{
	"spec.ignoreDifferences":                   {What: "fields that may differ are not imported", Hint: "drift: ignore of a helm step looks at none; fields that a controller owns are left alone in any case"},
	"spec.syncPolicy.managedNamespaceMetadata": {What: "labels and annotations of the namespace are not set", Hint: "apply the Namespace in a step before"},
	"spec.sourceHydrator":                      {What: "the source is rendered by Argo CD before", Hint: "import the Application with the source that is hydrated"},
	"...kustomize":                             {What: "options of kustomize are not imported", Hint: toOverlay},
	"...directory":                             {What: "options of the folder are not imported", Hint: "name the files in files of the apply step"},
	"...include":                               {What: "which files of the folder are meant is not imported", Hint: "name them in files of the apply step"},
	"...exclude":                               {What: "which files of the folder are left out is not imported", Hint: "name the others in files of the apply step"},
	"...jsonnet":                               {What: "jsonnet is not evaluated", Hint: "apply what it becomes: jsonnet FILE | kplan run with files of it"},
	"...passCredentials":                       {What: "credentials are not passed to other hosts", Hint: "declare the repository under repositories of the plan, with pass_credentials"},
	"...skipSchemaValidation":                  {What: "values are checked by the schema of the chart all the same", Hint: "mend values that the schema refuses"},
}
