package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
)

// outage is why a webhook cannot be called, as its Service and what stands behind it
// tell. A zero one says that nothing speaks against a call.
type outage struct {
	webhook.Reading
}

// outage reads why a webhook cannot be called.
func (h hook) outage() outage {
	for _, rung := range []webhook.Rung{webhook.Routed, webhook.Backed} {
		if r, ok := h.Ladder.At(rung); ok && (r.State == webhook.Waiting || r.State == webhook.Failed) {
			return outage{r}
		}
	}
	return outage{}
}

// is reports whether there is one.
func (o outage) is() bool { return o.Rung != "" }

// gone: the Service does not exist.
func (o outage) gone() bool { return o.Rung == webhook.Routed && o.State == webhook.Waiting }

// portless: the Service lacks the port.
func (o outage) portless() bool { return o.Rung == webhook.Routed && o.State == webhook.Failed }

// unbacked: nothing behind the Service is ready.
func (o outage) unbacked() bool { return o.Rung == webhook.Backed }

// outages finds the webhooks that cannot be called, those of one configuration that
// stand alike at once.
func (c *Cluster) outages(ctx context.Context, which func(hook, outage) bool) []finding.Finding {
	groups := alike(c.hooks(ctx), func(h hook) string {
		if o := h.outage(); o.is() && which(h, o) {
			return h.Service() + " " + o.Reason
		}
		return ""
	})
	var found []finding.Finding
	for _, g := range groups {
		found = append(found, c.outageOf(ctx, g))
	}
	return found
}

// outageOf says why webhooks of one configuration cannot be called.
func (c *Cluster) outageOf(ctx context.Context, group []hook) finding.Finding {
	h, o := group[0], group[0].outage()
	f := finding.Finding{Object: h.Source().String()}
	for _, h := range group {
		s := h.Client.Service
		f.Evidence = append(f.Evidence, h.evidence("clientConfig.service", fmt.Sprintf("%s in namespace %s, port %d", s.Name, s.Namespace, h.Port())))
	}
	f.Evidence = append(f.Evidence, finding.Evidence{Object: o.Source.String(), Field: o.field(), Value: o.value()})
	f.Message = fmt.Sprintf("%s cannot be called: %s", named(group), o.Reason)
	if o.unbacked() {
		f.Message = fmt.Sprintf("%s cannot be called at Service %s: %s", named(group), h.Service(), o.Reason)
	}
	var from time.Time
	switch {
	case o.gone():
		c.stale(ctx, &f, h)
	case o.portless():
		f.Hint = fmt.Sprintf("correct the port in one of the two: kubectl get -n %s service %s", h.Client.Service.Namespace, h.Client.Service.Name)
	default:
		f.Hint, from = o.hint(h), o.Since
	}
	if h.failsOpen() {
		f.Message += "; its failurePolicy is Ignore: requests go past it"
	}
	return c.grade(f, h, from)
}

// field is where an outage is read.
func (o outage) field() string {
	switch {
	case o.gone():
		return "metadata.name"
	case o.portless():
		return "spec.ports"
	case o.Source.Kind == "Pod":
		return "status"
	case o.Source.Kind == "Service":
		return "endpoints"
	case strings.HasSuffix(o.Reason, "is scaled to 0"):
		return "spec.replicas"
	default:
		return "status.conditions"
	}
}

// value is what is read there.
func (o outage) value() string {
	switch o.field() {
	case "metadata.name":
		return "does not exist"
	case "spec.replicas":
		return "0"
	case "spec.ports":
		_, ports, _ := strings.Cut(o.Reason, ", only ")
		return ports
	default:
		return o.Reason
	}
}

// hint says how to see, or mend, why nothing is ready behind the Service.
func (o outage) hint(h hook) string {
	kind, at := strings.ToLower(o.Source.Kind), "-n "+o.Source.Namespace
	switch {
	case o.Source.Kind == "Service" && h.Backing != nil && h.Backing.Service != nil && len(h.Backing.Service.Spec.Selector) == 0:
		return fmt.Sprintf("see its addresses, which somebody enters by hand: kubectl get %s endpointslices -l kubernetes.io/service-name=%s", at, o.Source.Name)
	case o.Source.Kind == "Service":
		return fmt.Sprintf("compare what it selects with the labels of the pods: kubectl get %s service %s -o wide", at, o.Source.Name)
	case strings.HasSuffix(o.Reason, "is scaled to 0"):
		return fmt.Sprintf("scale it up: kubectl scale %s %s %s --replicas=1", at, kind, o.Source.Name)
	default:
		return fmt.Sprintf("see its events: kubectl describe %s %s %s", at, kind, o.Source.Name)
	}
}

// stale says whose a webhook is whose Service does not exist, and whether that is
// still there.
func (c *Cluster) stale(ctx context.Context, f *finding.Finding, h hook) {
	namespace := h.Client.Service.Namespace
	if o, known := c.get(ctx, namespaceResource, "", namespace); known && o == nil {
		f.Message += ", nor does its namespace"
		f.Evidence = append(f.Evidence, finding.Evidence{Object: object("Namespace", "", namespace), Field: "metadata.name", Value: "does not exist"})
	}
	remove := "delete it if nothing needs it any more: kubectl delete " + h.kubectl()
	if h.Kind == webhook.Conversion {
		remove = "bring the Service back; do not delete the CRD, for its objects would go with it"
	}
	f.Hint = remove
	owner := c.owner(ctx, h)
	f.Evidence = append(f.Evidence, owner.evidence...)
	switch {
	case owner.gone && h.Kind == webhook.Conversion:
		f.Message += "; " + owner.name + ", which brought it, is gone"
	case owner.gone:
		f.Message += "; " + owner.name + ", which brought it, is gone"
		f.Hint = "it was left behind: kubectl delete " + h.kubectl()
	case h.Owner.Release != "":
		f.Message += "; it is of " + owner.name
		f.Hint = "have Helm make the Service again, or " + remove
	case strings.HasPrefix(owner.name, "field manager "):
		f.Message += "; it was written by " + strings.TrimPrefix(owner.name, "field manager ")
	case owner.name != "":
		f.Message += "; it is of " + owner.name
	}
}
