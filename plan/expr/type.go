package expr

import (
	"errors"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Type is the type of a value.
type Type struct {
	cel *cel.Type
	// object is set for the type of an Object.
	object *Object
	// values are all that a value can be; see OneOf.
	values []string
}

// The types of plain values. Map and List are of any values, maps with text as
// keys.
var (
	Any    = Type{cel: cel.DynType}
	String = Type{cel: cel.StringType}
	Int    = Type{cel: cel.IntType}
	Double = Type{cel: cel.DoubleType}
	Bool   = Type{cel: cel.BoolType}
	List   = Type{cel: cel.ListType(cel.DynType)}
	Map    = Type{cel: cel.MapType(cel.StringType, cel.DynType)}
)

// MapOf is the type of maps from text to values of one type.
func MapOf(t Type) Type {
	return Type{cel: cel.MapType(cel.StringType, t.cel), object: t.object}
}

// String names the type as CEL does: string, list(dyn).
func (t Type) String() string { return cel.FormatCELType(t.cel) }

// About says in words what values of the type are.
func (t Type) About() string {
	switch t.cel.Kind() {
	case types.ListKind:
		return "a list"
	case types.MapKind:
		return "a mapping"
	case types.NullTypeKind:
		return "nothing"
	case types.StringKind:
		return "text"
	case types.BoolKind:
		return "true or false"
	case types.IntKind, types.UintKind, types.DoubleKind:
		return "a number"
	default:
		return "a value of the type " + t.String()
	}
}

// Is reports whether a value of the type is one of the other type: surely, or, for
// a type that is not known before there is a value, maybe.
func (t Type) Is(other Type) bool {
	return t.cel.Kind() == types.DynKind || other.cel.IsAssignableType(t.cel)
}

// IsScalar reports whether a value of the type can be written into a text.
func (t Type) IsScalar() bool {
	switch t.cel.Kind() {
	case types.ListKind, types.MapKind, types.StructKind, types.NullTypeKind:
		return false
	default: // what is not known may be a scalar
		return true
	}
}

// isObject reports whether the values of the type are Objects themselves.
func (t Type) isObject() bool { return t.object != nil && t.cel.Kind() == types.StructKind }

// Object is a type whose fields are known by name. An expression that asks for
// another field is wrong. Objects are not values: an expression cannot have one
// as its result.
type Object struct {
	typ   Type
	field func(name string) (Type, bool)
}

// NewObject makes the type of an object. Name must be different for every object
// of an Env; field gives the type of a field, the same whenever it is asked, and
// is not asked at the same time twice.
func NewObject(name string, field func(name string) (Type, bool)) *Object {
	o := &Object{field: field}
	// The blank keeps the type's name from being one that an expression can use.
	o.typ = Type{cel: cel.ObjectType("object " + name), object: o}
	return o
}

// Type returns the object as the type of a field.
func (o *Object) Type() Type { return o.typ }

// Fields is an Object's field function for a fixed set of fields.
func Fields(fields map[string]Type) func(string) (Type, bool) {
	return func(name string) (Type, bool) {
		t, ok := fields[name]
		return t, ok
	}
}

// provider finds the fields of objects for CEL.
type provider struct {
	*types.Registry
	mu      sync.Mutex
	objects map[string]*Object
}

func (p *provider) add(t Type) {
	if t.object != nil {
		p.objects[t.object.typ.cel.TypeName()] = t.object
	}
}

// FindStructType implements types.Provider.
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o, ok := p.objects[name]; ok {
		return types.NewTypeTypeWithParam(o.typ.cel), true
	}
	return nil, false
}

// FindStructFieldNames implements types.Provider.
func (p *provider) FindStructFieldNames(string) ([]string, bool) { return nil, false }

// FindStructFieldType implements types.Provider.
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, ok := p.objects[name]
	if !ok {
		return nil, false
	}
	t, ok := o.field(field)
	if !ok {
		return nil, false
	}
	p.add(t)
	return &types.FieldType{Type: t.cel}, true
}

var errNoObjects = errors.New("objects cannot be made in an expression")

// NewValue implements types.Provider.
func (p *provider) NewValue(string, map[string]ref.Val) ref.Val {
	return types.WrapErr(errNoObjects)
}
