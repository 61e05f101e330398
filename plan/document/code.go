package document

// Code is the class of a fault. Codes do not change from one version to the next,
// so that programs can tell faults apart; messages do.
type Code string

// The classes of faults; Codes says what each of them is.
const (
	CodeSyntax       Code = "syntax"
	CodeUnknownField Code = "unknown-field"
	CodeMissingField Code = "missing-field"
	CodeWrongType    Code = "wrong-type"
	CodeUnknownValue Code = "unknown-value"
	CodeUnknownName  Code = "unknown-name"
	CodeDuplicate    Code = "duplicate"
	CodeCycle        Code = "cycle"
	CodeFile         Code = "file"
	CodeVariable     Code = "variable"
	CodeExpression   Code = "expression"
	CodeInvalid      Code = "invalid"
)

// Codes are all classes of faults, with a sentence that says what faults of it are.
var Codes = []struct {
	Code  Code
	About string
}{
	{CodeSyntax, "The file is not YAML, or not as plain as a plan must be."},
	{CodeUnknownField, "There is no field of that name here."},
	{CodeMissingField, "A field that must be given is missing or empty."},
	{CodeWrongType, "The value is of another type than the field."},
	{CodeUnknownValue, "The field takes some values only, and not this one."},
	{CodeUnknownName, "Nothing in the plan has that name."},
	{CodeDuplicate, "What must be there once is there twice."},
	{CodeCycle, "Things need each other in a circle."},
	{CodeFile, "A file that the plan names is missing or is of no use."},
	{CodeVariable, "A variable has no value, or one that it does not take."},
	{CodeExpression, "An expression cannot be read, or has no value."},
	{CodeInvalid, "The plan asks for something that cannot be."},
}
