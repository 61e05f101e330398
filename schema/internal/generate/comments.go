package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// comments are the words that package plan has for its types.
type comments struct {
	// types and fields are by name: Step, and Step.Needs.
	types, fields map[string]string
	// values are the constants of each type of string, in their order.
	values map[string][]value
}

type value struct{ text, about string }

// readComments reads the Go files of a folder.
func readComments(dir string) (*comments, error) {
	c := &comments{map[string]string{}, map[string]string{}, map[string][]value{}}
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if err := c.read(d); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return c, nil
}

func (c *comments) read(d ast.Decl) error {
	decl, ok := d.(*ast.GenDecl)
	if !ok {
		return nil
	}
	for _, s := range decl.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			doc := s.Doc
			if doc == nil {
				doc = decl.Doc
			}
			c.types[s.Name.Name] = words(doc)
			if t, ok := s.Type.(*ast.StructType); ok {
				c.readFields(s.Name.Name, t)
			}
		case *ast.ValueSpec:
			if err := c.readValue(decl.Tok, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// readFields takes the comment of each field. One without is described together
// with the one before when that one's comment names it.
func (c *comments) readFields(owner string, t *ast.StructType) {
	before := ""
	for _, f := range t.Fields.List {
		for _, name := range f.Names {
			doc := words(f.Doc)
			if doc == "" && word(name.Name).MatchString(before) {
				doc = before
			}
			c.fields[owner+"."+name.Name] = doc
			before = doc
		}
	}
}

// readValue takes constants such as NeedAlways NeedOn = "always".
func (c *comments) readValue(tok token.Token, s *ast.ValueSpec) error {
	t, ok := s.Type.(*ast.Ident)
	if tok != token.CONST || !ok || len(s.Values) != 1 {
		return nil
	}
	lit, ok := s.Values[0].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return nil
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return err
	}
	about := strings.TrimPrefix(words(s.Doc), s.Names[0].Name)
	c.values[t.Name] = append(c.values[t.Name], value{text, strings.TrimLeft(about, ": ")})
	return nil
}

// words are those of a comment, on one line.
func words(doc *ast.CommentGroup) string {
	if doc == nil {
		return ""
	}
	return strings.Join(strings.Fields(doc.Text()), " ")
}

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
