package preflight

// Rule is what a finding is about. Rules do not change from one version to the next.
type Rule string

// The rules; About says what each of them is.
const (
	Kind      Rule = "cluster-kind"
	Namespace Rule = "cluster-namespace"
	Refused   Rule = "cluster-refused"
	Release   Rule = "cluster-release"
	Owner     Rule = "cluster-owner"
	Chart     Rule = "cluster-chart"
	Unchecked Rule = "cluster-unchecked"
)

// Rules are all rules.
var Rules = []Rule{Kind, Namespace, Refused, Release, Owner, Chart, Unchecked}

// About says in one sentence what findings of the rule are.
func (r Rule) About() string {
	switch r {
	case Kind:
		return "The cluster does not know a kind, and no step before brings it."
	case Namespace:
		return "A namespace does not exist, and no step before makes it."
	case Refused:
		return "The API server refuses an object."
	case Release:
		return "A release of this name is of another chart."
	case Owner:
		return "An object of a chart exists, and is not the release's."
	case Chart:
		return "A chart cannot be had, or not be rendered for the cluster."
	default:
		return "The cluster cannot tell yet."
	}
}
