package main

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// comments are the words that packages have for their types.
type comments struct {
	// types and fields are by name: Step, and Step.Needs.
	types, fields map[string]string
	// values are the constants of each type of string, in their order.
	values map[string][]value
}

type value struct{ text, about string }

// readComments reads the Go files of a folder, but for tests.
func readComments(dir string) (*comments, error) {
	c := &comments{map[string]string{}, map[string]string{}, map[string][]value{}}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(set, files, dir, doc.AllDecls|doc.PreserveAST)
	if err != nil {
		return nil, err
	}
	for _, t := range p.Types {
		c.types[t.Name] = words(t.Doc)
		for _, spec := range t.Decl.Specs {
			if s, ok := spec.(*ast.TypeSpec).Type.(*ast.StructType); ok {
				c.readFields(t.Name, s)
			}
		}
		for _, block := range t.Consts {
			for _, spec := range block.Decl.Specs {
				c.readValue(t.Name, spec.(*ast.ValueSpec))
			}
		}
	}
	return c, nil
}

// readFields takes the comment of each field. One without is described together
// with the one before when that one's comment names it.
func (c *comments) readFields(owner string, t *ast.StructType) {
	before := ""
	for _, f := range t.Fields.List {
		for _, name := range f.Names {
			about := words(f.Doc.Text())
			if about == "" && word(name.Name).MatchString(before) {
				about = before
			}
			c.fields[owner+"."+name.Name] = about
			before = about
		}
	}
}

// readValue takes a constant such as NeedAlways NeedOn = "always".
func (c *comments) readValue(of string, s *ast.ValueSpec) {
	if t, ok := s.Type.(*ast.Ident); !ok || t.Name != of || len(s.Values) != 1 {
		return
	}
	if lit, ok := s.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
		text, _ := strconv.Unquote(lit.Value) // the compiler has taken it
		about := strings.TrimPrefix(words(s.Doc.Text()), s.Names[0].Name)
		c.values[of] = append(c.values[of], value{text, strings.TrimLeft(about, ": ")})
	}
}

// words are those of a comment, on one line.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

func word(name string) *regexp.Regexp { return regexp.MustCompile(`\b` + name + `\b`) }

// field describes a field of t in the words of the file: fields that the comment
// names are named as in the file. A field without a comment is described by its
// type's.
func (c *comments) field(t reflect.Type, f reflect.StructField) string {
	text, owner := c.fields[t.Name()+"."+f.Name], t
	if text == "" {
		of := f.Type
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		text = c.inFile(c.types[of.Name()], of)
	}
	return c.inFile(text, owner)
}

// about describes a type in the words of the file.
func (c *comments) about(t reflect.Type) string { return c.inFile(c.types[t.Name()], t) }

// inFile puts the names that a file has in place of Go's.
func (c *comments) inFile(text string, owner reflect.Type) string {
	if owner.Kind() != reflect.Struct {
		return text
	}
	for f := range owner.Fields() {
		if name := jsonName(f); name != "" {
			text = word(f.Name).ReplaceAllString(text, name)
		}
	}
	return text
}

// jsonName is how a file names a field; "" when it cannot.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}
