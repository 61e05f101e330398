// Package bench measures kplan on a real cluster. Its benchmarks are in test
// files; run them with "make bench", which also rewrites the table of
// bench/README.md.
//
// BenchmarkAdmission says how long after the floor an object is admitted whose
// webhook comes up in the same chart. The floor of an install is the moment at
// which an independent dry-run, sent every 10 ms through the API server, first
// passes the webhook after the webhook had made it fail: no client could have
// been admitted much earlier.
//
// BenchmarkPhases does so for each fault that an operator can start with, and
// lets other tools install the same chart beside kplan. It needs a lab that
// nobody else uses.
//
// BenchmarkHold says what it costs clients to reach the API server by kplan hold.
//
// BenchmarkHelm says how long installs, upgrades and runs with nothing to do take, from
// the start of a process to its end, beside Helm 3, Helm 4 and helmfile, and how many
// requests each sends.
//
// BenchmarkDoctor says how long an examination of a cluster with many operators takes.
//
// BenchmarkUnchanged says how long it takes to find that nothing has changed, beside
// kapp and kubectl.
//
// The package does not measure how fast a cluster starts pods, and tunes nothing
// of the cluster: the readiness tick and kube-proxy's sync stay as they are.
package bench
