package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
)

// The faults of this file are those of one server process. At the end of each the server serves again.

// kill kills a server's process and returns the evidence. It counts the kill, and the first kill sets from.
func (w *wound) kill(s *server) (string, error) {
	pid, err := s.kill()
	if err != nil {
		return "", err
	}
	if w.kills++; w.kills == 1 {
		w.from = time.Now()
	}
	return fmt.Sprintf("pid %s is gone: %v", pid, gone(pid)), nil
}

// killed is a fault: kill -9, and a new process within a second.
func killed(ctx context.Context, w *wound) (string, error) {
	evidence, err := w.kill(w.s)
	if err != nil {
		return "", err
	}
	hold(ctx, w.between(0, time.Second))
	return evidence, w.s.start(context.WithoutCancel(ctx))
}

// allKilled is a fault: kill -9 of every server, so that for some seconds no process reclaims jobs.
func allKilled(ctx context.Context, w *wound) (string, error) {
	defer w.lockAll()()
	var all []string
	for _, s := range w.servers {
		evidence, err := w.kill(s)
		if err != nil {
			return "", err
		}
		all = append(all, evidence)
	}
	hold(ctx, w.between(time.Second, 5*time.Second))
	return strings.Join(all, ", "), w.each(func(s *server) error { return s.start(context.WithoutCancel(ctx)) })
}

// justKilled kills the process as a preparation of another fault. The kill is recorded as a fault of its own.
func (w *wound) justKilled() error {
	evidence, err := w.kill(w.s)
	if err == nil {
		w.land(check.Fault{Kind: "F01", What: "kill -9 of a server", Target: w.target, From: w.from, To: time.Now(),
			Evidence: evidence, Kills: w.kills, Repeats: true})
		w.kills = 0
	}
	return err
}

// replace kills the process, which is recorded as a fault of its own, and starts one with the failpoints points
// armed.
func (w *wound) replace(ctx context.Context, points string) error {
	if err := w.justKilled(); err != nil {
		return err
	}
	err := w.s.start(context.WithoutCancel(ctx), "TIERQ_FAILPOINTS="+points) // also when ctx has ended
	w.from, w.target = time.Now(), w.s.pid()
	return err
}

// atPoint returns a fault: the process is replaced by one that kills itself when it passes a failpoint for the nth
// time. n is 1 to 5.
func atPoint(point string) func(context.Context, *wound) (string, error) {
	return func(ctx context.Context, w *wound) (string, error) {
		if err := w.replace(ctx, fmt.Sprintf("%s=kill@%d", point, 1+w.rng.IntN(5))); err != nil {
			return "", err
		}
		if !w.s.awaitDeath(ctx, 10*time.Second) {
			return "nobody passed " + point, errMissed // the point stays armed: the process may die of it later
		}
		w.from, w.kills = time.Now(), 1
		why, _ := w.s.died()
		w.s.keepLog(w.s.now())
		return why, w.s.start(context.WithoutCancel(ctx))
	}
}

func orMissed(err error) error {
	if err == nil {
		return errMissed
	}
	return err
}

// afterScript returns a fault: a process is killed after Redis has executed a call of a script and before the
// answer arrives.
func afterScript(name string) func(context.Context, *wound) (string, error) {
	return func(ctx context.Context, w *wound) (string, error) {
		line, landed := w.dropReply(ctx, name, 10*time.Second)
		if !landed {
			return "nobody called it", errMissed
		}
		evidence, err := w.kill(w.s)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("reply %q kept back, then %s", line, evidence), w.s.start(context.WithoutCancel(ctx))
	}
}

// stopped returns a fault: a signal asks the process to stop, as often as times says.
func stopped(sig syscall.Signal, times int) func(context.Context, *wound) (string, error) {
	return func(ctx context.Context, w *wound) (string, error) {
		p, began, late := w.s.now(), time.Now(), false
		for n := range times {
			err := p.Signal(sig)
			if errors.Is(err, os.ErrProcessDone) && n == 0 {
				return "it had ended by itself", errMissed
			}
			if late = errors.Is(err, os.ErrProcessDone); err != nil && !late {
				return "", fmt.Errorf("signal: %w", err)
			}
			hold(ctx, 50*time.Millisecond)
		}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		code, err := p.WaitExit(within)
		if err != nil {
			return "", err
		}
		took := time.Since(began)
		w.s.keepLog(p)
		w.stopped(check.Stop{PID: w.target, At: began, Took: took, Code: code})
		evidence := fmt.Sprintf("pid %d ended with %d after %s", p.Pid(), code, took.Round(10*time.Millisecond))
		if late { // the first signal has landed
			w.land(check.Fault{Kind: "F09", What: "SIGTERM", Target: w.target, From: w.from, To: time.Now(), Evidence: evidence,
				Repeats: true})
			return "it was quicker than the second signal", orMissed(w.s.start(context.WithoutCancel(ctx)))
		}
		return evidence, w.s.start(context.WithoutCancel(ctx))
	}
}

func (c *cluster) stopped(s check.Stop) {
	c.notes.Lock()
	defer c.notes.Unlock()
	c.beside.Stops = append(c.beside.Stops, s)
}

// frozen returns a fault: SIGSTOP, and SIGCONT after a random time from low to high.
func frozen(low, high time.Duration) func(context.Context, *wound) (string, error) {
	return func(ctx context.Context, w *wound) (string, error) {
		p := w.s.now()
		if err := p.Freeze(); err != nil {
			return "", err
		}
		began := time.Now()
		hold(ctx, w.between(low, high))
		return fmt.Sprintf("pid %d stood still for %s", p.Pid(), time.Since(began).Round(10*time.Millisecond)), p.Thaw()
	}
}

// frozenAtPoint returns a fault: the process stops itself at a failpoint for 6 s, and the other servers have to
// carry on.
func frozenAtPoint(point string) func(context.Context, *wound) (string, error) {
	return frozenFor(point, 6*time.Second)
}

// frozenFor returns a fault: the process stops itself at a failpoint and is continued after a time.
func frozenFor(point string, long time.Duration) func(context.Context, *wound) (string, error) {
	return func(ctx context.Context, w *wound) (string, error) {
		if err := w.replace(ctx, fmt.Sprintf("%s=stop@%d", point, 1+w.rng.IntN(3))); err != nil {
			return "", err
		}
		p := w.s.now()
		within, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := p.WaitOutput(within, "failpoint "+point); err != nil {
			return "nobody passed " + point, orMissed(w.replace(context.WithoutCancel(ctx), ""))
		}
		w.from = time.Now()
		hold(ctx, long)
		return hit.FindString(p.Output()), p.Thaw()
	}
}
