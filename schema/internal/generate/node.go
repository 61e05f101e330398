package main

import (
	"bytes"
	"encoding/json"
)

// node is a schema. Of its keywords draft-07 does not know patternErrorMessage
// and enumDescriptions: editors do, and others pass over them.
type node struct {
	Schema           string     `json:"$schema,omitempty"`
	Title            string     `json:"title,omitempty"`
	Description      string     `json:"description,omitempty"`
	Ref              string     `json:"$ref,omitempty"`
	Type             any        `json:"type,omitempty"` // a string or a []string
	Format           string     `json:"format,omitempty"`
	Const            string     `json:"const,omitempty"`
	Enum             []string   `json:"enum,omitempty"`
	EnumDescriptions []string   `json:"enumDescriptions,omitempty"`
	Pattern          string     `json:"pattern,omitempty"`
	PatternError     string     `json:"patternErrorMessage,omitempty"`
	MinLength        int        `json:"minLength,omitempty"`
	Minimum          *float64   `json:"minimum,omitempty"`
	Maximum          *float64   `json:"maximum,omitempty"`
	MinItems         int        `json:"minItems,omitempty"`
	MinProperties    int        `json:"minProperties,omitempty"`
	Items            *node      `json:"items,omitempty"`
	Required         []string   `json:"required,omitempty"`
	Properties       properties `json:"properties,omitempty"`
	PropertyNames    *node      `json:"propertyNames,omitempty"`
	// AdditionalProperties is false or a *node.
	AdditionalProperties any        `json:"additionalProperties,omitempty"`
	AllOf                []*node    `json:"allOf,omitempty"`
	AnyOf                []*node    `json:"anyOf,omitempty"`
	OneOf                []*node    `json:"oneOf,omitempty"`
	Not                  *node      `json:"not,omitempty"`
	If                   *node      `json:"if,omitempty"`
	Then                 *node      `json:"then,omitempty"`
	Default              any        `json:"default,omitempty"`
	Examples             []any      `json:"examples,omitempty"`
	Definitions          properties `json:"definitions,omitempty"`
}

// properties are schemas by name, in an order that people read.
type properties []property

type property struct {
	name string
	node *node
}

// MarshalJSON writes an object whose keys are in the order of the properties.
func (p properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	separator := "{"
	for _, one := range p {
		b.WriteString(separator)
		if err := e.Encode(one.name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(one.node); err != nil {
			return nil, err
		}
		separator = ","
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
