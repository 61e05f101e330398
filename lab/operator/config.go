package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Parts of the operator. Real operators split them over several Deployments
// (External Secrets has three), so they can be started apart.
const (
	partWebhook    = "webhook"    // serves admission and conversion
	partCerts      = "certs"      // makes the certificate and injects its CA
	partController = "controller" // reconciles custom resources
	partCAInjector = "cainjector" // gives webhooks the CA that their annotation names
)

// Certificate sources.
const (
	certFiles  = "files"  // tls.crt and tls.key in a mounted Secret, read once
	certSelf   = "self"   // made by this process and kept in a Secret
	certSecret = "secret" // read from a Secret that another process fills
	certNone   = "none"
)

// config is the operator's behaviour; parseConfig documents each field.
type config struct {
	Name      string
	Namespace string
	Run       list

	Listen        string
	ListenDelay   time.Duration
	ListenEarly   bool
	HealthAddress string
	LyingHealth   bool
	Crash         int
	CrashAfter    time.Duration
	StateDir      string

	Cert       string
	CertDir    string
	CertReload bool
	CertSecret string
	CertDelay  time.Duration
	CertFault  string
	Service    string

	InjectWebhooks list
	InjectCRDs     list
	InjectDelay    time.Duration

	Answer    answer
	AnswerFor time.Duration
	Latency   time.Duration

	Manage         list
	WatchNamespace string
	ReadyDelay     time.Duration
	IssueDelay     time.Duration

	Job       string
	JobDelay  time.Duration
	InjectTo  int
	Chart     string
	Missing   list
	AwaitFile string
}

func (c config) needsCluster() bool {
	switch c.Job {
	case "":
		return c.Run.has(partCerts) || c.Run.has(partController) || c.Run.has(partCAInjector) ||
			c.Cert == certSelf || c.Cert == certSecret
	case jobVerify, jobAwait:
		return false
	}
	return true
}

// list is a comma-separated flag.
type list []string

func (l list) has(s string) bool { return slices.Contains(l, s) }
func (l *list) String() string   { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = nil
	for v := range strings.SplitSeq(s, ",") {
		if v = strings.TrimSpace(v); v != "" {
			*l = append(*l, v)
		}
	}
	return nil
}

// parseConfig reads flags, with defaults from the environment: --listen-delay
// is LAB_LISTEN_DELAY, so that a chart can pass every value by name.
func parseConfig(args []string, env func(string) (string, bool)) (config, error) {
	c := config{Run: list{partWebhook}, Answer: answer{kind: answerOK}}
	fs := c.flagSet()
	var errs []error
	fs.VisitAll(func(f *flag.Flag) {
		name := "LAB_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := env(name); ok && v != "" {
			if err := f.Value.Set(v); err != nil {
				errs = append(errs, fmt.Errorf("%s=%q: %w", name, v, err))
			}
		}
	})
	if err := fs.Parse(args); err != nil {
		errs = append(errs, err)
	} else if fs.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	errs = append(errs, c.check())
	return c, errors.Join(errs...)
}

func (c *config) flagSet() *flag.FlagSet {
	fs := flag.NewFlagSet("operator", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&c.Name, "name", "operator", "`name` in messages and in the annotation that the mutating webhook adds")
	fs.StringVar(&c.Namespace, "namespace", "default", "`namespace` of this pod, of its Service and of its certificate Secret")
	fs.Var(&c.Run, "run", "`parts` to run: webhook,certs,controller,cainjector")

	fs.StringVar(&c.Listen, "listen", ":9443", "webhook `address`")
	fs.DurationVar(&c.ListenDelay, "listen-delay", 0, "wait so long before listening, after the certificate is there")
	fs.BoolVar(&c.ListenEarly, "listen-early", false, "listen without waiting for a certificate (TLS handshakes then fail)")
	fs.StringVar(&c.HealthAddress, "health", ":8081", "`address` of /healthz, /readyz and /metrics")
	fs.BoolVar(&c.LyingHealth, "lying-health", false, "answer /readyz with 200 from the first moment")
	fs.IntVar(&c.Crash, "crash", 0, "exit with an error on the first `N` starts")
	fs.DurationVar(&c.CrashAfter, "crash-after", 0, "live so long before such a crash")
	fs.StringVar(&c.StateDir, "state-dir", "/state", "`folder` that survives container restarts and holds the crash counter")

	fs.StringVar(&c.Cert, "cert", certFiles, "certificate source: files, self, secret or none")
	fs.StringVar(&c.CertDir, "cert-dir", "/certs", "`folder` with tls.crt and tls.key")
	fs.BoolVar(&c.CertReload, "cert-reload", false, "read the files again when they change")
	fs.StringVar(&c.CertSecret, "cert-secret", "operator-webhook", "Secret `name` for --cert=self and --cert=secret")
	fs.DurationVar(&c.CertDelay, "cert-delay", 0, "wait so long before making the certificate")
	fs.StringVar(&c.CertFault, "cert-fault", "", "make a bad certificate: expired, early or wrong-san")
	fs.StringVar(&c.Service, "service", "", "`name:port` of the webhook's Service, for certificates and injection")

	fs.Var(&c.InjectWebhooks, "inject-webhooks", "validating and mutating webhook configuration `names` to put the CA into")
	fs.Var(&c.InjectCRDs, "inject-crds", "CRD `names` to give a conversion webhook with the CA")
	fs.DurationVar(&c.InjectDelay, "inject-delay", 0, "wait so long before injecting, after the certificate is there")

	fs.Var(&c.Answer, "answer", "answer to calls: ok, deny, hang, close, badjson, plainhttp or an HTTP status such as 404")
	fs.DurationVar(&c.AnswerFor, "answer-for", 0, "behave again so long after listening began (0: never)")
	fs.DurationVar(&c.Latency, "latency", 0, "time that each call takes")

	fs.Var(&c.Manage, "manage", "`kinds` to reconcile, as resource.version.group[:behaviour]")
	fs.StringVar(&c.WatchNamespace, "watch-namespace", "", "reconcile in this `namespace` only")
	fs.DurationVar(&c.ReadyDelay, "ready-delay", time.Second, "time from an object's creation to its Ready condition")
	fs.DurationVar(&c.IssueDelay, "issue-delay", 3*time.Second, "time from a certificate's creation to its Secret")

	fs.StringVar(&c.Job, "job", "", "run one `task` and exit: make-cert, inject, check-api, verify or await")
	fs.DurationVar(&c.JobDelay, "job-delay", 0, "time that the job takes before it does anything")
	fs.IntVar(&c.InjectTo, "inject-to", 0, "with --job=inject: how many webhooks, from the first on, get the CA")
	fs.StringVar(&c.Chart, "chart", "", "with --job=verify: `name:version` of the chart to find")
	fs.Var(&c.Missing, "missing", "charts, as `name:version`, that no repository has")
	fs.StringVar(&c.AwaitFile, "await-file", "", "with --job=await: the `file` that must have content")
	return fs
}

func (c *config) check() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	oneOf := func(flag, what, value string, known ...string) {
		if !slices.Contains(known, value) {
			bad("--%s: no %s is called %q", flag, what, value)
		}
	}
	for _, p := range c.Run {
		oneOf("run", "part", p, partWebhook, partCerts, partController, partCAInjector)
	}
	oneOf("cert", "source", c.Cert, certFiles, certSelf, certSecret, certNone)
	oneOf("cert-fault", "fault", c.CertFault, "", "expired", "early", "wrong-san")
	if c.Cert != certSelf && c.Run.has(partCerts) {
		bad("--run=certs needs --cert=self")
	}
	if c.Cert == certSelf && c.Service == "" {
		bad("--cert=self needs --service")
	}
	if c.Cert == certNone && c.Run.has(partWebhook) {
		bad("--run=webhook needs a certificate")
	}
	if c.Job != "" && jobs[c.Job] == nil {
		bad("--job: no job is called %q", c.Job)
	}
	if _, _, err := c.service(); err != nil {
		bad("--service: %w", err)
	}
	if _, err := parseManaged(c.Manage); err != nil {
		bad("--manage: %w", err)
	}
	return errors.Join(errs...)
}
