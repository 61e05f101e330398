package object

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kplan-dev/kplan/fleet"
)

// AnnotationClusters says which clusters of its wave a Job has, as Indexes: its own index 0
// is the first of them.
const AnnotationClusters = "kplan.dev/fleet-clusters"

// Annotations of pods by which the Job controller counts how often an index failed.
const (
	AnnotationFailed  = "batch.kubernetes.io/job-index-failure-count"
	AnnotationIgnored = "batch.kubernetes.io/job-index-ignored-failure-count"
)

// The names of the ServiceAccounts where a fleet names none.
const (
	WorkerAccount = "kplan-fleet-worker"
	DriverAccount = "kplan-fleet-driver"
)

// Container is the name of the one container of all pods.
const Container = "kplan"

// How a worker ends. A run's Jobs act on it: with Failed, Usage and NotStarted nobody tries
// again; with Unreachable another does, twice; a worker that was stopped has a successor.
const (
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotStarted  = 20
	ExitUnreachable = 75
	ExitInterrupted = 130
	ExitTerminated  = 143
)

// Retries is how often a cluster is begun again that was out of reach, or whose worker was
// killed.
const Retries = 2

// user is who the pods' process is: the image's nonroot.
const user = 65532

// WaveJob makes the Job of a wave for those of its clusters that are given. It is suspended.
func (s *Spec) WaveJob(wave, round int, clusters Indexes) *batchv1.Job {
	w, name := s.Rollout.Waves[wave], s.Run.Wave(wave, round)
	n, ttl, retries, limit := int32(len(clusters)), int32(s.keep()/time.Second), int32(Retries), int32(1<<31-1)
	parallel := min(n, int32(w.Parallel)) //nolint:gosec // a Job takes no more than 100,000
	if s.Parallel > 0 {
		parallel = min(parallel, int32(s.Parallel)) //nolint:gosec // the same
	}
	mode, replace, suspend := batchv1.IndexedCompletion, batchv1.Failed, true
	job := &batchv1.Job{
		ObjectMeta: s.meta(name, PartWave),
		Spec: batchv1.JobSpec{
			Completions: &n, Parallelism: &parallel, CompletionMode: &mode, Suspend: &suspend,
			BackoffLimit: &limit, BackoffLimitPerIndex: &retries, PodReplacementPolicy: &replace, PodFailurePolicy: failures(),
			TTLSecondsAfterFinished: &ttl,
			Template: s.pod(cmp.Or(s.Engine.ServiceAccount, WorkerAccount), s.Grace, []string{
				"fleet", "worker", "--run", string(s.Run), "--round", strconv.Itoa(round), "--wave", strconv.Itoa(wave),
				"--rollout", s.Parts[wave], "--digest", s.Rollout.Digest,
			}),
		},
	}
	job.Annotations = map[string]string{AnnotationClusters: clusters.String()}
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		labels[LabelPart], labels[LabelWave], labels[LabelRound] = PartWave, strconv.Itoa(wave), strconv.Itoa(round)
	}
	return job
}

// failures says what a pod's end means for its index. None of it ends the Job, which would
// delete the pods that are at work.
func failures() *batchv1.PodFailurePolicy {
	name := Container
	exits := func(action batchv1.PodFailurePolicyAction, codes ...int32) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: &name, Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes,
		}}
	}
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		exits(batchv1.PodFailurePolicyActionFailIndex, ExitFailed, ExitUsage, ExitNotStarted),
		exits(batchv1.PodFailurePolicyActionIgnore, ExitInterrupted, ExitTerminated),
		{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		}},
	}}
}

// DriverJob makes the Job of the driver. It has one pod, which may be replaced at any time.
func (s *Spec) DriverJob(round int) *batchv1.Job {
	one, ttl, retries := int32(1), int32(s.keep()/time.Second), int32(20)
	job := &batchv1.Job{
		ObjectMeta: s.meta(s.Run.Driver(round), PartDriver),
		Spec: batchv1.JobSpec{
			Completions: &one, Parallelism: &one, BackoffLimit: &retries, TTLSecondsAfterFinished: &ttl,
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: failures().Rules[1:]},
			Template: s.pod(cmp.Or(s.Engine.DriverServiceAccount, DriverAccount), 10, []string{
				"fleet", "driver", "--run", string(s.Run), "--round", strconv.Itoa(round),
			}),
		},
	}
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		labels[LabelPart], labels[LabelRound] = PartDriver, strconv.Itoa(round)
	}
	return job
}

// pod is the template of the pods: no rights on the node, and nothing to write to but /tmp.
func (s *Spec) pod(account string, grace int64, args []string) corev1.PodTemplateSpec {
	yes, no, id := true, false, int64(user)
	c := corev1.Container{
		Name: Container, Image: s.Engine.Image, ImagePullPolicy: corev1.PullIfNotPresent, Args: args,
		Env: []corev1.EnvVar{
			{Name: "HOME", Value: "/tmp"},
			{Name: "TMPDIR", Value: "/tmp"},
			{Name: "NO_COLOR", Value: "1"},
			{Name: "KPLAN_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}},
			{Name: "KPLAN_POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "KPLAN_FAILED", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + AnnotationFailed + "']"}}},
			{Name: "KPLAN_IGNORED", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + AnnotationIgnored + "']"}}},
		},
		VolumeMounts:             []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
		Resources:                s.resources(),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Privileged: &no,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: account, TerminationGracePeriodSeconds: &grace, EnableServiceLinks: &no,
		Containers: []corev1.Container{c},
		Volumes:    []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		NodeSelector: s.Engine.NodeSelector,
	}
	for _, name := range s.Engine.ImagePullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	spec.Tolerations, _ = tolerations(s.Engine.Tolerations) // Check has seen them
	t := corev1.PodTemplateSpec{Spec: spec}
	t.Labels = maps.Clone(s.labels(""))
	return t
}

// Check returns what is wrong with the engine's options that only Kubernetes knows.
func Check(e fleet.KubernetesEngine) error {
	if _, err := tolerations(e.Tolerations); err != nil {
		return fmt.Errorf("engine.kubernetes.tolerations: %w", err)
	}
	if e.Resources == nil {
		return nil
	}
	for field, all := range map[string]map[string]string{"requests": e.Resources.Requests, "limits": e.Resources.Limits} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if _, err := resource.ParseQuantity(all[name]); err != nil {
				return fmt.Errorf("engine.kubernetes.resources.%s.%s: %q is no quantity, such as 100m or 128Mi", field, name, all[name])
			}
		}
	}
	return nil
}

func tolerations(all []map[string]any) (t []corev1.Toleration, err error) {
	text, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	return t, err
}

// resources are what a pod asks for.
func (s *Spec) resources() corev1.ResourceRequirements {
	if s.Engine.Resources == nil {
		return corev1.ResourceRequirements{Requests: quantities(map[string]string{"cpu": "100m", "memory": "128Mi"})}
	}
	return corev1.ResourceRequirements{Requests: quantities(s.Engine.Resources.Requests), Limits: quantities(s.Engine.Resources.Limits)}
}

func quantities(all map[string]string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, text := range all {
		if q, err := resource.ParseQuantity(text); err == nil {
			list[corev1.ResourceName(name)] = q
		}
	}
	return list
}
