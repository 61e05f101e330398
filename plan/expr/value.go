package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Bounds of one expression's value.
const (
	maxNodes = 200_000
	maxText  = 4 << 20
)

// adapter gives CEL the values of a plan: nil, bool, int64, float64, string,
// json.Number, []any and map[string]any. Others cannot be used.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case json.Number:
		if u, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return types.Uint(u)
		}
		return number(v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// number is a number of more digits than CEL's have. It can be passed on and
// compared, and written as text.
type number json.Number

var numberType = types.NewOpaqueType("number")

// ConvertToNative implements ref.Val.
func (n number) ConvertToNative(t reflect.Type) (any, error) {
	if t == reflect.TypeFor[json.Number]() {
		return json.Number(n), nil
	}
	return nil, errors.New("a number of so many digits cannot be converted")
}

// ConvertToType implements ref.Val.
func (n number) ConvertToType(t ref.Type) ref.Val {
	if t == types.StringType {
		return types.String(n)
	}
	return types.NewErr("a number of so many digits cannot be converted")
}

// Equal implements ref.Val.
func (n number) Equal(other ref.Val) ref.Val { return types.Bool(n == other) }

// Type implements ref.Val.
func (n number) Type() ref.Type { return numberType }

// Value implements ref.Val.
func (n number) Value() any { return json.Number(n) }

// converter turns CEL's values into those of a plan.
type converter struct{ nodes, text int }

var errTooLarge = errors.New("the value of the expression is too large")

func (c *converter) convert(v ref.Val) (any, error) {
	if c.nodes++; c.nodes > maxNodes {
		return nil, errTooLarge
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if uint64(v) <= math.MaxInt64 {
			return int64(v), nil
		}
		return json.Number(strconv.FormatUint(uint64(v), 10)), nil
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, errors.New("the value is no number that a plan can have")
		}
		return float64(v), nil
	case types.String:
		if c.text += len(v); c.text > maxText {
			return nil, errTooLarge
		}
		return string(v), nil
	case number:
		return json.Number(v), nil
	case traits.Mapper:
		return c.convertMap(v)
	case traits.Lister:
		return c.convertList(v)
	}
	return nil, fmt.Errorf("a value of the type %s cannot stand in a plan: convert it with string()", v.Type().TypeName())
}

func (c *converter) convertList(l traits.Lister) (any, error) {
	out := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		v, err := c.convert(it.Next())
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (c *converter) convertMap(m traits.Mapper) (any, error) {
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, errors.New("the keys of a map must be text")
		}
		if c.text += len(name); c.text > maxText {
			return nil, errTooLarge
		}
		v, err := c.convert(m.Get(key))
		if err != nil {
			return nil, err
		}
		out[string(name)] = v
	}
	return out, nil
}
