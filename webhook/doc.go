// Package webhook knows what a webhook of an API server is, as a client sees it:
//
//   - an [Entry] is what configures one, an admission webhook or a CRD's
//     conversion webhook; [EntriesOf] reads it from an object;
//   - a [Fault] is what an error says about one, and whether the same request
//     may be sent again: see [Classify] and [ClassifyError];
//   - a [Ladder] is how far one has come on its way to admit objects, read by
//     [ReadLadder] from the objects that it depends on, each [Rung] with a reason.
//
// All of that are pure functions. The packages below put them to use: survey
// reads the ladders of a cluster as they change, hold keeps requests until
// their webhook answers, match predicts which webhooks a request meets, and
// probe shows by dry runs that one answers.
//
// # What a reading does not prove
//
// Only an answer through the API server proves that a webhook answers, and
// only that it did so once. Below that, a rung that is ready proves nothing of the ones
// above it; each [Rung]'s comment says what it leaves open. Least of all do
// other tools' signals: a Deployment that is Available and a pod that is Ready
// ask a readiness probe, whose author may have asked anything.
//
// The package does not install, configure or repair webhooks, and does not
// decide whether an object is valid. It imports client-go and nothing of kplan's.
package webhook
