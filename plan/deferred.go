package plan

// Input is a value that a deferred step wants to know when it starts: the state or an
// output of another step, or a key of a Secret or ConfigMap. Equal inputs have the
// same answer.
type Input struct {
	// Step is the name of a step of the plan whose state or output is asked for; ""
	// for a value from a cluster.
	Step string
	// Output is the name of an output of Step; "" asks for its state, which is
	// answered by the name of one, such as succeeded or unchanged.
	Output string
	// From says what object of a cluster is asked for, and Key which of it. The
	// answer is the key's text.
	From Source
	Key  KeyRef
	// Sensitive says that the answer must not be shown.
	Sensitive bool
	// Optional says that a default stands in for what the cluster does not have: the
	// answer is then left out.
	Optional bool
}

// Source is the kind of an object that gives the value of a variable.
type Source string

// Where values come from.
const (
	FromSecret    Source = "secret"
	FromConfigMap Source = "config_map"
)

// String says in words what is asked for.
func (a Input) String() string {
	switch {
	case a.Step != "" && a.Output != "":
		return "the output " + a.Output + " of the step " + a.Step
	case a.Step != "":
		return "the state of the step " + a.Step
	case a.From == FromSecret:
		return "the key " + a.Key.Key + " of the Secret " + a.Key.path()
	}
	return "the key " + a.Key.Key + " of the ConfigMap " + a.Key.path()
}

func (k KeyRef) path() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Inputs are answers. An output that its step did not give is left out: an
// expression may look for it with has(). The states of steps that are not asked for
// make the errors better.
type Inputs map[Input]any

// Deferred returns what the step asks for before it can start, each once, in a stable
// order; nil for a step whose fields are all known. The fields of a step that are
// deferred are zero, and keys of maps whose values are deferred are left out.
func (s Step) Deferred() []Input {
	if s.Pending == nil {
		return nil
	}
	return s.Pending.Inputs
}

// Bind returns the step with all of its fields resolved and checked, its paths too.
// Of a step whose when turns out to be false it resolves nothing else, but says
// so in Skip. The error is a Diagnostics with positions in the plan's file. Of a
// step that is not deferred it gives the step itself. Steps of one plan may be bound
// at the same time.
func (s Step) Bind(known Inputs) (Step, error) {
	if s.Pending == nil {
		return s, nil
	}
	return s.Pending.Bind(s, known)
}

// Pending is what is kept of a step until its fields can be resolved.
type Pending struct {
	// Inputs are what the step asks for, each once.
	Inputs []Input
	// Must are those of them without whose answer the step cannot start.
	Must []Input
	// Bind returns the step with its fields resolved: see Step.Bind.
	Bind func(Step, Inputs) (Step, error)
}
