package rights

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	roles        = schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}
	clusterRoles = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
)

// escalation adds what the API server wants of who makes roles and binds them: the rights
// that they grant, or the verbs escalate and bind (kubernetes/kubernetes
// pkg/registry/rbac/escalation_check.go).
//
// The rights of a role are asked for, and not escalate: who may escalate one role may
// write any rights into it. For bindings it is bind on the named role, which gives no
// more than that role.
func (c *computer) escalation(s Step, objects []*unstructured.Unstructured) {
	for _, o := range objects {
		if o.GroupVersionKind().Group != rbacv1.GroupName {
			continue
		}
		r, namespace := c.Kinds.at(o)
		switch o.GetKind() {
		case "Role", "ClusterRole":
			c.grants(s.Name, o, r, namespace)
		case "RoleBinding", "ClusterRoleBinding":
			c.binds(s.Name, o, namespace)
		}
	}
}

// grants adds what a role takes.
func (c *computer) grants(step string, o *unstructured.Unstructured, r schema.GroupResource, namespace string) {
	role := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
		c.note(step, true, "%s %s is malformed: %v", o.GetKind(), o.GetName(), err)
		return
	}
	n := need{step: step, purpose: fmt.Sprintf("to grant what %s %s grants", o.GetKind(), o.GetName()), other: true}
	if role.AggregationRule != nil {
		c.add(n, r, namespace, nil, "escalate")
		c.note(step, false, "%s %s gathers the rights of others: who makes it needs all rights, or the verb escalate on all roles", o.GetKind(), o.GetName())
		return
	}
	c.hold(n, role.Rules, namespace)
	c.note(step, false, "%s %s grants rights: who makes it needs them", o.GetKind(), o.GetName())
}

// hold adds the rights that rules grant.
func (c *computer) hold(n need, granted []rbacv1.PolicyRule, namespace string) {
	for _, p := range granted {
		for _, verb := range p.Verbs {
			for _, group := range p.APIGroups {
				for _, resource := range p.Resources {
					c.add(n, schema.GroupResource{Group: group, Resource: resource}, namespace, names(p.ResourceNames), verb)
				}
			}
			for _, url := range p.NonResourceURLs {
				c.rules = append(c.rules, Rule{URL: url, Verb: verb, Step: n.step, For: n.purpose, Other: n.other})
			}
		}
	}
}

// binds adds what a binding takes.
func (c *computer) binds(step string, o *unstructured.Unstructured, namespace string) {
	kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
	name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
	r := roles
	if kind == "ClusterRole" {
		r = clusterRoles
	}
	n := need{step: step, purpose: fmt.Sprintf("to bind %s %s", kind, name), other: true}
	c.add(n, r, namespace, []string{name}, "bind")
	c.note(step, false, "%s %s binds %s %s: who makes it needs its rights, or the verb bind on it", o.GetKind(), o.GetName(), kind, name)
}
