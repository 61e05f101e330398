package output

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan"
)

const service = `
apiVersion: v1
kind: Service
metadata: {name: gateway}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}, {name: https, port: 443}], none: null, empty: ""}
status: {loadBalancer: {}}
`

const secret = `
apiVersion: v1
kind: Secret
metadata: {name: token}
data: {token: czNjcjN0LXBhc3M=, binary: /w==, tls.crt: Y2VydA==}
`

// Each case is what is read from the object, and its value or why there is none.
func TestValue(t *testing.T) {
	for name, tt := range map[string]struct {
		object string
		spec   plan.Output
		want   any
		err    string
	}{
		"a text":            {service, plan.Output{JSONPath: "{.spec.clusterIP}"}, "10.0.0.1", ""},
		"without braces":    {service, plan.Output{JSONPath: ".spec.clusterIP"}, "10.0.0.1", ""},
		"a number":          {service, plan.Output{JSONPath: "{.spec.ports[1].port}"}, int64(443), ""},
		"by a filter":       {service, plan.Output{JSONPath: `{.spec.ports[?(@.name=="https")].port}`}, int64(443), ""},
		"a mapping":         {service, plan.Output{JSONPath: "{.spec.ports[0]}"}, map[string]any{"name": "http", "port": int64(80)}, ""},
		"a list":            {service, plan.Output{JSONPath: "{.spec.ports}"}, []any{map[string]any{"name": "http", "port": int64(80)}, map[string]any{"name": "https", "port": int64(443)}}, ""},
		"several":           {service, plan.Output{JSONPath: "{.spec.ports[*].port}"}, "80 443", ""},
		"in a text":         {service, plan.Output{JSONPath: "http://{.spec.clusterIP}:{.spec.ports[0].port}"}, "http://10.0.0.1:80", ""},
		"an empty text":     {service, plan.Output{JSONPath: "{.spec.empty}"}, "", ""},
		"a missing field":   {service, plan.Output{JSONPath: "{.status.loadBalancer.ingress[0].ip}"}, nil, "service/gateway: {.status.loadBalancer.ingress[0].ip} gives nothing; .status.loadBalancer is empty"},
		"a missing item":    {service, plan.Output{JSONPath: "{.spec.ports[2].port}"}, nil, "service/gateway: {.spec.ports[2].port}: array index out of bounds: index 2, length 2; .spec.ports has 2 items"},
		"missing in a text": {service, plan.Output{JSONPath: "http://{.spec.host}"}, nil, "service/gateway: http://{.spec.host} gives nothing"},
		"null":              {service, plan.Output{JSONPath: "{.spec.none}"}, nil, "service/gateway: {.spec.none} gives nothing"},

		"CEL":                 {service, plan.Output{CEL: "object.spec.ports[1].port + 1"}, int64(444), ""},
		"CEL, a list":         {service, plan.Output{CEL: "object.spec.ports.map(p, p.name)"}, []any{"http", "https"}, ""},
		"CEL, a mapping":      {service, plan.Output{CEL: "{'ip': object.spec.clusterIP}"}, map[string]any{"ip": "10.0.0.1"}, ""},
		"CEL, Kubernetes'":    {service, plan.Output{CEL: "ip(object.spec.clusterIP).family()"}, int64(4), ""},
		"CEL, missing":        {service, plan.Output{CEL: "object.status.loadBalancer.ingress[0].ip"}, nil, "service/gateway: object.status.loadBalancer.ingress[0].ip: no such key: ingress; .status.loadBalancer is empty"},
		"CEL, null":           {service, plan.Output{CEL: "object.spec.?host.orValue(null)"}, nil, "gives nothing"},
		"CEL, not JSON":       {service, plan.Output{CEL: "{1: 2}"}, nil, "it gives a map whose keys are no text"},
		"CEL, too much of it": {service, plan.Output{CEL: "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, a+b+c+d+e+f < 100))))))"}, nil, "cost limit exceeded"},

		"a Secret's text":         {secret, plan.Output{JSONPath: "{.data.token}"}, "s3cr3t-pass", ""},
		"a Secret's text, by CEL": {secret, plan.Output{CEL: "object.data['tls.crt']"}, "cert", ""},
		"a Secret's bytes":        {secret, plan.Output{JSONPath: "{.data.binary}"}, "/w==", ""},
		"a Secret's missing key":  {secret, plan.Output{JSONPath: "{.data.password}"}, nil, "service/gateway: {.data.password} gives nothing; .data has binary, tls.crt, token"},
		"a Secret in an error":    {secret, plan.Output{CEL: "object[object.data.token]"}, nil, "no such key: [redacted]"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.spec.Resource = "service/gateway"
			o, err := New(map[string]plan.Output{"x": tt.spec}, "")
			require.NoError(t, err)
			raw, err := yaml.YAMLToJSON([]byte(tt.object))
			require.NoError(t, err)
			u := &unstructured.Unstructured{}
			require.NoError(t, u.UnmarshalJSON(raw))

			got, err := o.value("x", u)

			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				require.NotContains(t, err.Error(), "s3cr3t-pass")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

// What is wrong in an output is told before the plan starts.
func TestNewRefuses(t *testing.T) {
	for want, spec := range map[string]plan.Output{
		`outputs.x: resource: "services" is not TYPE/NAME`:        {Resource: "services", CEL: "object"},
		"outputs.x: it takes jsonpath or cel to say what is read": {Resource: "service/a"},
		"outputs.x: jsonpath and cel exclude each other":          {Resource: "service/a", CEL: "object", JSONPath: "{.a}"},
		"outputs.x: cel: column 1: undeclared reference to 'obj'": {Resource: "service/a", CEL: "obj.a"},
		"outputs.x: jsonpath: unclosed action":                    {Resource: "service/a", JSONPath: "{.a"},
	} {
		_, err := New(map[string]plan.Output{"x": spec}, "")
		require.ErrorContains(t, err, want)
	}
}
