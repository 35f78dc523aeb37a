package proof

import (
	"context"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
)

// Rounds counts the work of a descheduler's pod since it started.
type Rounds struct {
	Ended   int // rounds through all nodes and pods
	Evicted int // pods; in a dry run, the pods that it would have evicted
	Refused int // evictions that a disruption budget or a limit forbade
}

// WaitRounds waits until a pod of the descheduler has ended a round, and the last one without a failure, bounded by ctx. A round begins once the descheduler has read all that its policies need, so that missing rights show as a round that does not end.
func WaitRounds(ctx context.Context, c *kube.Client, namespace, app, port string) (Rounds, error) {
	var out Rounds
	err := waitPod(ctx, c, namespace, app, func(ctx context.Context, p *corev1.Pod) (err *fail.Error) {
		if out, err = roundsOf(ctx, c, p, port); err != nil {
			return err.Do("look at the log: kubectl logs -n %s deployment/%s", namespace, app)
		}
		return nil
	})
	return out, err
}

// roundsOf returns fail.NotReady unless a pod has ended a round, and the last one without a failure.
func roundsOf(ctx context.Context, c *kube.Client, p *corev1.Pod, port string) (Rounds, *fail.Error) {
	body, err := kube.Set(c).CoreV1().RESTClient().Get().Namespace(p.Namespace).Resource("pods").SubResource("proxy").Name("https:" + p.Name + ":" + port).Suffix("metrics").DoRaw(ctx)
	if err != nil {
		return Rounds{}, fail.Wrap(fail.NotReady, err, "read the metrics of pod %s at port %s", p.Name, port).At(c.Server())
	}
	out := counted(body)
	if out.Ended == 0 {
		return out, fail.New(fail.NotReady, "pod %s has not ended a round yet", p.Name).At(c.Server())
	}
	lines := int64(2000)
	log, err := kube.Set(c).CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
	if err != nil {
		return out, awaited(ctx, c, err, "read the log of pod %s", p.Name)
	}
	if why := failed(string(log)); why != "" {
		return out, fail.New(fail.NotReady, "the last round of pod %s failed: %s", p.Name, why).At(c.Server())
	}
	return out, nil
}

// counted reads the counters of the descheduler among its metrics.
func counted(metrics []byte) Rounds {
	var out Rounds
	for line := range strings.Lines(string(metrics)) {
		line = strings.TrimSpace(line)
		cut := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil {
			continue
		}
		switch name := line[:max(cut, 0)]; {
		case strings.HasPrefix(name, "descheduler_loop_duration_seconds_count"):
			out.Ended += int(value)
		case !strings.HasPrefix(name, "descheduler_pods_evicted_total{"):
		case strings.Contains(name, `result="success"`):
			out.Evicted += int(value)
		default:
			out.Refused += int(value)
		}
	}
	return out
}

// failed returns the line of the log about a failure in the last round that ended; empty if it had none.
func failed(log string) string {
	const end, failure = `"Number of evictions/requests"`, "extension point failed with error"
	rounds := strings.Split(log, end)
	if len(rounds) < 2 {
		return ""
	}
	for line := range strings.Lines(rounds[len(rounds)-2]) {
		if strings.Contains(line, failure) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
