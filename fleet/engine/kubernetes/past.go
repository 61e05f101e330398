package kubernetes

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
	"github.com/kplan-dev/kplan/runner"
)

// Log returns the events of a cluster's own run, as its newest worker wrote them. The error is
// fs.ErrNotExist when there is no such worker any more.
func (r *Run) Log(ctx context.Context, cluster string) ([]runner.Event, error) {
	p, err := r.workerOf(ctx, cluster)
	if err != nil {
		return nil, err
	}
	from, err := r.store.Client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: object.Container}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the log of pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	defer from.Close()
	var events []runner.Event
	for lines := bufio.NewReaderSize(from, 64<<10); ; {
		text, err := readLine(lines)
		var e runner.Event
		if json.Unmarshal(text, &e) == nil && e.Seq == len(events)+1 {
			events = append(events, e)
		}
		if err != nil {
			break
		}
	}
	if len(events) == 0 {
		return nil, fs.ErrNotExist
	}
	return events, nil
}

// workerOf is the newest pod that began to work on a cluster.
func (r *Run) workerOf(ctx context.Context, cluster string) (*corev1.Pod, error) {
	c := r.Rollout.Cluster(cluster)
	if c == nil {
		return nil, fs.ErrNotExist
	}
	wave := slices.IndexFunc(r.Rollout.Waves, func(w fleet.WaveInfo) bool { return w.Name == c.Wave })
	place := slices.IndexFunc(r.Rollout.Wave(c.Wave), func(o fleet.Cluster) bool { return o.Name == cluster })
	list, err := r.store.Client.BatchV1().Jobs(r.store.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: r.Run.Selector() + "," + object.LabelWave + "=" + strconv.Itoa(wave),
	})
	if err != nil {
		return nil, err
	}
	var all workers
	for i := range list.Items {
		j, err := readJob(&list.Items[i], r.Rollout.Waves[wave].Clusters)
		if err != nil {
			return nil, err
		}
		k, mine := slices.BinarySearch(j.clusters, place)
		if !mine {
			continue
		}
		pods, err := r.store.Client.CoreV1().Pods(r.store.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: batchv1.JobNameLabel + "=" + j.Name + "," + batchv1.JobCompletionIndexAnnotation + "=" + strconv.Itoa(k),
		})
		if err != nil {
			return nil, err
		}
		for n := range pods.Items {
			if p := &pods.Items[n]; !startOf(p).IsZero() {
				all = append(all, p)
			}
		}
	}
	if all.sort(); len(all) == 0 {
		return nil, fs.ErrNotExist
	}
	return all.latest(), nil
}
