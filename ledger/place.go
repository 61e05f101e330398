package ledger

import (
	"context"
	"maps"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Place is where a plan's lock is kept.
type Place struct {
	// Client speaks to the cluster.
	Client kubernetes.Interface
	// Namespace is made if it is missing.
	Namespace string
	// Plan is the plan's name.
	Plan string
}

// read returns the plan's Lease, or nil when there is none.
func (p Place) read(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := p.Client.CoordinationV1().Leases(p.Namespace).Get(ctx, objectName(p.Plan), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return lease, err
}

// take writes h into the Lease as it was read, nil if there was none.
func (p Place) take(ctx context.Context, old *coordinationv1.Lease, h Holder) (*coordinationv1.Lease, error) {
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: objectName(p.Plan)}}
	if old != nil {
		lease = old.DeepCopy()
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	maps.Copy(lease.Annotations, map[string]string{
		annotationPlan: p.Plan, annotationHost: h.Host, annotationUser: h.User,
		annotationPID: strconv.Itoa(h.PID), annotationProcess: h.process,
	})
	delete(lease.Annotations, annotationSeat)
	if h.Seat != "" {
		lease.Annotations[annotationSeat] = h.Seat
	}
	spec := &lease.Spec
	if spec.LeaseTransitions == nil {
		spec.LeaseTransitions = new(int32)
	} else {
		*spec.LeaseTransitions++
	}
	seconds := int32(leaseTime / time.Second)
	spec.HolderIdentity, spec.LeaseDurationSeconds, spec.AcquireTime, spec.RenewTime = &h.Run, &seconds, &now, &now

	leases := p.Client.CoordinationV1().Leases(p.Namespace)
	if old != nil {
		taken, err := leases.Update(ctx, lease, metav1.UpdateOptions{FieldManager: manager})
		if apierrors.IsNotFound(err) {
			return nil, errLate // it was deleted meanwhile
		}
		return taken, err
	}
	made, err := leases.Create(ctx, lease, metav1.CreateOptions{FieldManager: manager})
	if !apierrors.IsNotFound(err) {
		return made, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}
	_, err = p.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{FieldManager: manager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, &namespaceError{err}
	}
	return leases.Create(ctx, lease, metav1.CreateOptions{FieldManager: manager})
}

// renew writes the time into the Lease as it was seen last.
func (p Place) renew(ctx context.Context, seen *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	lease, now := seen.DeepCopy(), metav1.NowMicro()
	lease.Spec.RenewTime = &now
	return p.Client.CoordinationV1().Leases(p.Namespace).Update(ctx, lease, metav1.UpdateOptions{FieldManager: manager})
}

// Locked returns who holds the lock, nil when nobody does.
func (p Place) Locked(ctx context.Context) (*Holder, error) {
	lease, err := p.read(ctx)
	if h, held := holderOf(lease); held && err == nil {
		return &h, nil
	}
	return nil, err
}

// Alive reports whether the holder may still run, as far as one look tells.
func (h Holder) Alive() bool { return !h.ended() && time.Since(h.Renewed) <= leaseTime }

// Unlock takes the lock away from h, and from nobody else: it reports false when
// somebody else has it now.
func (p Place) Unlock(ctx context.Context, h Holder) (bool, error) {
	lease, err := p.read(ctx)
	if err != nil {
		return false, err
	}
	if now, held := holderOf(lease); !held || now.Run != h.Run {
		return false, nil
	}
	lease.Spec.HolderIdentity = new(string)
	_, err = p.Client.CoordinationV1().Leases(p.Namespace).Update(ctx, lease, metav1.UpdateOptions{FieldManager: manager})
	if apierrors.IsConflict(err) {
		// Its holder renewed it between the two, or another took it: look again.
		return p.Unlock(ctx, h)
	}
	return err == nil, err
}
