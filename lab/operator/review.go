package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	groupLab          = "lab.kplan.dev"
	denyLabel         = "lab.kplan.dev/deny"
	mutatedAnnotation = "lab.kplan.dev/mutated-by"
	defaultTier       = "standard"
	maxReview         = 8 << 20 // the API server sends at most two objects of 1.5 MiB each
)

// webhookHandler serves every path that starts with /validate, /mutate or
// /convert, so that charts can use the paths of the operator they stand for.
func (o *operator) webhookHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The whole body is read first: net/http notices only then that a
		// caller has gone, on which a hanging answer depends.
		body, err := io.ReadAll(io.LimitReader(r.Body, maxReview))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		wrong := o.fault.current()
		_ = sleep(r.Context(), o.cfg.Latency)

		var k call
		var reply any
		switch {
		case strings.HasPrefix(r.URL.Path, "/validate"):
			k, reply, err = o.admit(body, validate, wrong)
		case strings.HasPrefix(r.URL.Path, "/mutate"):
			k, reply, err = o.admit(body, o.mutate, wrong)
		case strings.HasPrefix(r.URL.Path, "/convert"):
			k, reply, err = convertReview(body)
		default:
			http.NotFound(w, r)
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		k.path = r.URL.Path
		if wrong.kind != answerOK && wrong.kind != answerDeny {
			k.answer = wrong.String()
		}
		o.calls.add(k)
		o.log.Info("call", "path", k.path, "resource", k.resource, "operation", k.operation, "dryRun", k.dryRun, "answer", k.answer)
		if wrong.answerWrongly(w, r) {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply)
	})
}

// admit answers one AdmissionReview by decide.
func (o *operator) admit(body []byte, decide func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse, wrong answer) (call, any, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return call{}, nil, fmt.Errorf("read the review: %w", err)
	}
	req := review.Request
	if req == nil {
		return call{}, nil, errors.New("read the review: no request in it")
	}
	resp := decide(req)
	if wrong.kind == answerDeny {
		resp = denied("the lab's operator was told to deny everything")
	}
	resp.UID = req.UID
	k := call{
		resource:  req.Resource.Resource + "." + req.Resource.Group,
		operation: string(req.Operation),
		dryRun:    req.DryRun != nil && *req.DryRun,
		answer:    "allow",
	}
	if !resp.Allowed {
		k.answer = "deny"
	}
	return k, &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: resp}, nil
}

// validate denies objects that ask for it, and some that the real operator would
// deny too.
func validate(req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if req.Operation == admissionv1.Delete {
		return &admissionv1.AdmissionResponse{Allowed: true}
	}
	obj, err := object(req)
	if err != nil {
		return denied(err.Error())
	}
	deny, _, _ := unstructured.NestedBool(obj.Object, "spec", "deny")
	message := field(obj.Object, "spec", "denyMessage")
	switch {
	case deny && message != "":
		return denied(message)
	case deny:
		return denied("spec.deny: Invalid value: true: objects that ask to be denied are denied")
	case obj.GetLabels()[denyLabel] == "true":
		return denied("metadata.labels[" + denyLabel + "]: objects that ask to be denied are denied")
	}
	if lacking := emptySpec[req.Kind.Group+"/"+req.Kind.Kind]; lacking.message != "" {
		spec, _, _ := unstructured.NestedMap(obj.Object, "spec")
		if !slices.ContainsFunc(lacking.fields, func(f string) bool { return !empty(spec[f]) }) {
			return denied(lacking.message)
		}
	}
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// emptySpec are real operators' denials of objects which their schemas admit:
// one of the fields must have something.
var emptySpec = map[string]struct {
	fields  []string
	message string
}{
	// external-secrets/external-secrets: apis/externalsecrets/v1beta1/externalsecret_validator.go
	groupESO + "/ExternalSecret": {[]string{"data", "dataFrom"}, "either data or dataFrom should be specified"},
	// cert-manager/cert-manager: internal/apis/certmanager/validation/certificate.go
	groupCertManager + "/Certificate": {
		[]string{"commonName", "dnsNames", "uris", "emailAddresses", "ipAddresses", "otherNames"},
		`spec: Invalid value: "": at least one of commonName (from the commonName field or from a literalSubject), ` +
			`dnsNames, uriSANs, ipAddresses, emailSANs or otherNames must be set`,
	},
	// ai-dynamo/dynamo: internal/webhook/validation/dynamographdeployment.go
	"nvidia.com/DynamoGraphDeployment": {[]string{"services"}, "spec.services must have at least one service"},
}

func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// mutate gives the lab's kinds a default for spec.tier, a CertificateRequest the
// name of who asks, and says in an annotation who did it.
func (o *operator) mutate(req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	resp := &admissionv1.AdmissionResponse{Allowed: true}
	if req.Operation == admissionv1.Delete {
		return resp
	}
	obj, err := object(req)
	if err != nil {
		return denied(err.Error())
	}
	type op struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var ops []op
	spec, hasSpec := obj.Object["spec"].(map[string]any)
	if hasSpec && req.Kind.Group == groupLab && spec["tier"] == nil {
		ops = append(ops, op{"add", "/spec/tier", defaultTier})
	}
	if hasSpec && req.Kind.Kind == "CertificateRequest" && req.Kind.Group == groupCertManager {
		// cert-manager/cert-manager: internal/webhook/admission/certificaterequest/identity
		ops = append(ops, op{"add", "/spec/username", req.UserInfo.Username})
	}
	if obj.GetAnnotations() == nil {
		ops = append(ops, op{"add", "/metadata/annotations", map[string]string{}})
	}
	key := strings.ReplaceAll(mutatedAnnotation, "/", "~1")
	ops = append(ops, op{"add", "/metadata/annotations/" + key, o.cfg.Name})
	patch, err := json.Marshal(ops)
	if err != nil {
		return denied(err.Error())
	}
	kind := admissionv1.PatchTypeJSONPatch
	resp.Patch, resp.PatchType = patch, &kind
	return resp
}

func object(req *admissionv1.AdmissionRequest) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(req.Object.Raw, &obj.Object); err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	return obj, nil
}

func denied(message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status:  metav1.StatusFailure,
		Message: message,
		Reason:  metav1.StatusReasonForbidden,
		Code:    http.StatusForbidden,
	}}
}

// rfc3339 is how Kubernetes writes times.
func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }
