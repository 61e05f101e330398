package load

import (
	"reflect"
	"strings"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/document/decode"
)

// types are those of a fleet.
var types = &decode.Types{
	Special: map[reflect.Type]func(*decode.Decoder, reflect.Value, any, document.Path){
		reflect.TypeFor[fleet.Limit](): setLimit,
	},
	Aliases: map[string]string{
		"maxConcurrency": "parallel", "max_concurrency": "parallel", "concurrency": "parallel", "maxUpdate": "parallel", "maxUnavailable": "parallel",
		"parallelism": "parallel", "batch": "parallel", "batchSize": "parallel",
		"failures": "max_failures", "failureThreshold": "max_failures", "max_fail_percentage": "max_failures", "errorThreshold": "max_failures",
		"minSuccessTime": "soak", "soakTime": "soak", "delay": "soak", "delaySeconds": "soak", "bake": "soak", "wait": "soak",
		"approval": "approve", "manual": "approve", "requireApproval": "approve", "pause": "approve",
		"stages": "waves", "steps": "waves", "partitions": "waves", "rings": "waves", "batches": "waves", "phases": "waves",
		"clusterSelector": "selector", "matchLabels": "selector", "labelSelector": "selector", "labels": "selector", "sourceClusterSelector": "selector",
		"expression": "select", "when": "select", "filter": "select", "where": "select", "matchExpressions": "select", "selector": "select",
		"targets": "inventory", "generators": "inventory", "sources": "inventory", "clusterGroups": "inventory",
		"variables": "vars", "values": "vars", "set": "vars", "params": "vars",
		"path": "file", "limits": "budget", "runner": "engine", "clusterapi": "capi", "clusters": "list", "kubeconfigs": "contexts",
		"serviceAccountName": "service_account", "ttl": "keep", "ttlSecondsAfterFinished": "keep", "registry": "bundle",
	},
}

// setLimit decodes a number of clusters or a share of them.
func setLimit(d *decode.Decoder, dst reflect.Value, v any, at document.Path) {
	const hint = "write a whole number, or a share such as 5%"
	var text string
	switch v := v.(type) {
	case int64:
		if v < 0 {
			d.Report(fault{At: at, Hint: "0 lets nothing fail"}, "%s is %d, but must not be less than 0", at.Last(), v)
			return
		}
		if v > maxClusters {
			d.Report(fault{At: at}, "%s is %d, but a fleet has at most %d clusters", at.Last(), v, maxClusters)
			return
		}
		dst.Set(reflect.ValueOf(fleet.Limit{Count: int(v)}))
		return
	case string:
		text = strings.TrimSpace(v)
	case nil:
		d.ReportField(fault{Code: document.CodeWrongType, At: at, Hint: hint}, "expected a number or a share of clusters, got nothing")
		return
	default:
		d.Report(fault{Code: document.CodeWrongType, At: at, Hint: hint}, "expected a number or a share of clusters, got %s", d.DescribeAt(v, at))
		return
	}
	limit, err := fleet.ParseLimit(text)
	switch {
	case err == nil && limit.IsShare:
		dst.Set(reflect.ValueOf(limit))
	case err == nil:
		d.Report(fault{Code: document.CodeWrongType, At: at, Hint: "write it without quotes"}, "expected a number or a share of clusters, got %s", d.DescribeAt(v, at))
	case strings.HasSuffix(text, "%"):
		d.Report(fault{At: at, Hint: "write a share such as 5%"}, "%s", err)
	default:
		d.Report(fault{Code: document.CodeWrongType, At: at, Hint: hint}, "expected a number or a share of clusters, got %s", d.DescribeAt(v, at))
	}
}
