package flux

import "github.com/kplan-dev/kplan/foreign"

// losses are what is lost with fields of Flux, and what to do about it.
var losses = foreign.Losses{
	"spec.postRenderers":      {What: "objects that the chart renders are not patched", Hint: "change them by values, or apply them with kustomize"},
	"spec.serviceAccountName": {What: "kplan acts with the rights of who runs it, not as this service account", Hint: "run it as that account: kplan run --as"},
	"spec.commonMetadata":     {What: "these labels and annotations are not put on all objects", Hint: "set them by values, or by kustomize"},
	"spec.healthCheckExprs":   {What: "when objects of these kinds are ready is not imported", Hint: "write it as ready of the plan, see docs/reference/waiting.md"},
	"spec.waitStrategy":       {What: "kplan waits in its own way", Hint: "nothing is to be done"},
	"spec.test":               {What: "the chart's tests are not run", Hint: "run helm test after the plan"},
	"spec.rollback":           {What: "how Flux rolls back is not imported", Hint: "on_failure: rollback does as Helm does by default"},
	"spec.uninstall":          {What: "how Flux uninstalls is not imported", Hint: "kplan down says how it takes a plan down"},
	"spec.driftDetection":     {What: "what drift is ignored is not imported", Hint: "drift: report tells of it and puts nothing right"},
	"spec.driftDetection.ignore": {
		What: "fields that may differ are not imported", Hint: "drift: ignore looks at none; fields that a controller owns are left alone in any case",
	},
	"spec.patches":                             {What: "patches of the Kustomization are not applied", Hint: "write them into a kustomization.yaml, and name its folder in apply.kustomize"},
	"spec.patchesStrategicMerge":               {What: "patches of the Kustomization are not applied", Hint: "write them into a kustomization.yaml, and name its folder in apply.kustomize"},
	"spec.patchesJson6902":                     {What: "patches of the Kustomization are not applied", Hint: "write them into a kustomization.yaml, and name its folder in apply.kustomize"},
	"spec.images":                              {What: "images are not replaced", Hint: "write them into a kustomization.yaml, and name its folder in apply.kustomize"},
	"spec.components":                          {What: "components of the Kustomization are not applied", Hint: "write them into a kustomization.yaml, and name its folder in apply.kustomize"},
	"spec.namePrefix":                          {What: "names of objects get no prefix", Hint: "write it into a kustomization.yaml, and name its folder in apply.kustomize"},
	"spec.nameSuffix":                          {What: "names of objects get no suffix", Hint: "write it into a kustomization.yaml, and name its folder in apply.kustomize"},
	"spec.decryption":                          {What: "how files are decrypted is not imported", Hint: "kplan opens what SOPS encrypted for age, see docs/how-to/secrets.md"},
	"spec.deletionPolicy":                      {What: "what happens when the Kustomization is deleted is not imported", Hint: "kplan down says what it deletes"},
	"spec.verify":                              {What: "the signature of the chart is not verified", Hint: "give the step verify: {cosign: {key: FILE}}"},
	"spec.chart.spec.verify":                   {What: "the signature of the chart is not verified", Hint: "give the step verify: {cosign: {key: FILE}}"},
	"spec.certSecretRef":                       {What: "certificates for the repository are not imported", Hint: "write them into files, and name these by ca_file, cert_file and key_file of the repository"},
	"spec.proxySecretRef":                      {What: "the proxy is not imported", Hint: "set HTTPS_PROXY where kplan runs"},
	"spec.provider":                            {What: "kplan does not log in to registries of clouds by itself", Hint: "log in before: helm registry login, or a credential helper of Docker"},
	"spec.ref.semverFilter":                    {What: "versions are not filtered", Hint: "let version name the one that is meant"},
	"...force":                                 {What: "objects that cannot be changed are not replaced", Hint: "delete them first, or change what cannot be changed by a new name"},
	"...cleanupOnFail":                         {What: "objects that a failed upgrade made are left there", Hint: "on_failure: rollback takes them away too"},
	"...replace":                               {What: "the name of a deleted release that is kept in history is not used again", Hint: "nothing is to be done, unless there is one"},
	"...disableOpenAPIValidation":              {What: "objects are validated by the API server all the same", Hint: "nothing is to be done"},
	"...disableSchemaValidation":               {What: "values are checked by the schema of the chart all the same", Hint: "mend values that the schema refuses"},
	"...timeout":                               {What: "the time of single actions is not imported", Hint: "timeout of the step is for all that it does"},
	"...remediateLastFailure":                  {What: "what becomes of the last failure is not imported", Hint: "on_failure says what is done after each"},
	"...strategy":                              {What: "the strategy is not imported", Hint: "on_failure says what is done after a failure, and retry how often it is tried"},
	"...serverSideApply":                       {What: "whether objects are sent by server-side apply is not imported", Hint: "server_side of a helm step says it, see docs/reference/helm-engines.md"},
	"spec.accessFrom":                          {What: "who may use the source is a matter of Flux alone", Hint: "nothing is to be done"},
	"spec.chart.spec.ignoreMissingValuesFiles": {What: "a file of values that is missing fails the step", Hint: "take files out of values_files that need not be there"},
	"spec.chart.metadata":                      {What: "labels of the chart object are of Flux alone", Hint: "nothing is to be done"},
}

// overlayLosses are what is lost with fields of a kustomization.yaml whose HelmReleases
// are imported.
var overlayLosses = foreign.Losses{
	"components":        {What: "components of the overlay are not applied", Hint: build},
	"images":            {What: "images of the overlay are not replaced", Hint: build},
	"replacements":      {What: "replacements of the overlay are not made", Hint: build},
	"transformers":      {What: "transformers of the overlay are not run", Hint: build},
	"labels":            {What: "labels of the overlay are not put on objects", Hint: build},
	"commonLabels":      {What: "labels of the overlay are not put on objects", Hint: build},
	"commonAnnotations": {What: "annotations of the overlay are not put on objects", Hint: build},
	"namePrefix":        {What: "names of objects get no prefix", Hint: build},
	"nameSuffix":        {What: "names of objects get no suffix", Hint: build},
	"helmCharts":        {What: "charts of the overlay are not imported", Hint: "make a helm step of each"},
}

// build is what to do where an overlay says more than a plan can.
const build = "import what it becomes: kustomize build FOLDER | kplan import flux -"
