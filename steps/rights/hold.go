package rights

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/webhook"
)

// holding is what rights of a hold are for.
const holding = "to see when a webhook answers that a request is held for"

// holds adds what it takes to follow the webhooks that the plan brings itself. Which
// others a request is held for shows when it is.
func (c *computer) holds() {
	c.survey("")
	for _, s := range c.Steps {
		if s.Skip != "" || s.Webhook != nil {
			continue
		}
		for _, e := range entriesOf(s) {
			c.behind("", e)
		}
	}
}

// survey adds what it takes to see which webhooks are configured.
func (c *computer) survey(step string) {
	for _, r := range []schema.GroupResource{mutating, validating} {
		c.add(c.seeing(step), r, "", nil, "list", "watch")
	}
}

// seeing is the purpose of reading how webhooks stand. Without, requests are held all the
// same, and are sent again less well timed; a webhook step cannot do its work.
func (c *computer) seeing(step string) need {
	if step == "" {
		return need{purpose: holding, optional: true}
	}
	return need{step: step, purpose: "to see how its webhooks stand"}
}

// behind adds what it takes to see what stands behind a webhook (webhook/survey/service.go).
func (c *computer) behind(step string, e webhook.Entry) {
	if s := e.Client.Service; s != nil {
		c.backing(step, s.Namespace, []string{s.Name})
	}
}

// backing adds what it takes to see what is behind Services of a namespace; without names
// behind all.
func (c *computer) backing(step, namespace string, names []string) {
	n := c.seeing(step)
	n.optional = true
	c.add(n, services, namespace, names, "get", "list", "watch")
	for _, r := range []schema.GroupResource{endpointSlices, pods, events} {
		c.add(n, r, namespace, nil, "list", "watch")
	}
	c.add(n, podLogs, namespace, nil, "get")
	for _, r := range []schema.GroupResource{deployments, statefulSets} { // while there are no pods
		c.add(n, r, namespace, nil, "list")
	}
	c.add(n, secrets, namespace, nil, "get") // the certificates that its pods mount
}

// Holding are the rights that it takes to hold the requests of programs that kplan knows
// nothing of: webhooks may be called at any Service.
func Holding() []Rule {
	c := &computer{}
	c.survey("")
	n := need{purpose: holding, optional: true}
	c.add(n, services, "", nil, "get", "list", "watch")
	for _, r := range []schema.GroupResource{endpointSlices, pods} {
		c.add(n, r, "", nil, "list", "watch")
	}
	return compact(c.rules)
}
