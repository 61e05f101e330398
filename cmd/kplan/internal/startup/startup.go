// Package startup lets the program start without garbage collections: the packages
// of Kubernetes and Helm allocate some ten megabytes while they initialise, all of
// which stays in use. Without it four collections took a fifth of the time that
// `kplan version` takes.
//
// Go initialises packages that wait for nothing in the order of their import paths
// (language specification, "Program initialization"), so this one comes before
// most of those. It imports nothing else for that reason.
package startup

import "runtime/debug"

// percent is what GOGC asks for.
var percent = debug.SetGCPercent(-1)

// Done lets the collector work as GOGC asks. main calls it first of all.
func Done() { debug.SetGCPercent(percent) }
