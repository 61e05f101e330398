package webhook_test

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kplan-dev/kplan/webhook"
)

// An installer has failed. Is it worth trying again, and what is it waiting for?
func ExampleClassifyError() {
	notYet := apierrors.NewInternalError(errors.New(`failed calling webhook "v.example.io": failed to call webhook: ` +
		`Post "https://operator.ops.svc:443/validate?timeout=10s": dial tcp 10.96.0.9:443: connect: connection refused`))
	denied := errors.New(`admission webhook "v.example.io" denied the request: spec.size: too small`)

	for _, err := range []error{
		fmt.Errorf("INSTALLATION FAILED: %w", notYet),
		fmt.Errorf("UPGRADE FAILED: %w", errors.Join(notYet, denied)),
		fmt.Errorf("UPGRADE FAILED: %w", errors.Join(notYet, errors.New("timed out"))),
	} {
		fault := webhook.ClassifyError(err)
		fmt.Printf("%s %q: %q\n", fault.Class, fault.Webhook, fault.Cause)
		if fault.Ambiguous() {
			fmt.Println("  late, or gone for good? its Service and pods can tell")
		}
	}
	// Output:
	// race "v.example.io": "dial tcp 10.96.0.9:443: connect: connection refused"
	//   late, or gone for good? its Service and pods can tell
	// denied "v.example.io": "spec.size: too small"
	// none "": ""
}

// A create that met a conversion webhook which was away may be stored already.
func ExampleFault_ForRequest() {
	fault := webhook.ClassifyError(errors.New(`conversion webhook for example.io/v2, Kind=Widget failed: ` +
		`Post "https://operator.ops.svc:443/convert?timeout=30s": EOF`))

	fmt.Println("what was stored is v2; create it again as v1:", fault.ForRequest("example.io/v1", false).Retryable())
	fmt.Println("as v2, which was not stored then:", fault.ForRequest("example.io/v2", false).Retryable())
	fmt.Println("or read it:", fault.ForRequest("example.io/v1", true).Retryable())
	// Output:
	// what was stored is v2; create it again as v1: false
	// as v2, which was not stored then: true
	// or read it: true
}
