package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/testkit"
)

const (
	growthLoops   = 2 // of whole lives, per Redis: more than one keeps it busy while another's reply is read
	growthSlots   = 300
	skewMasters   = 3
	skewPartition = 6
)

// growthBench asks one Redis, and then two, for the same work in as many partitions as lie evenly on two; and how far
// from their arrival jobs start where there are several partitions. Driver, servers and MariaDB share the machine's
// cores: what two of Redis could do more shows only where cores are left.
func growthBench(ctx context.Context, l *lab) (figures []figure, err error) {
	partitions := evenly(2)
	var lives, drains [2]float64
	for i := range 2 {
		masters := i + 1
		p := partitions
		if masters == 1 {
			p = 1
		}
		if err := l.overMasters(ctx, masters, p, func(s *shards) (err error) {
			if lives[i], err = s.lives(ctx, l.scaled(120000, 1200)); err != nil {
				return err
			}
			drains[i], _, err = s.drain(ctx, l.scaled(200000, 2000))
			return err
		}); err != nil {
			return nil, fmt.Errorf("%d servers: %w", masters, err)
		}
	}
	err = l.overMasters(ctx, skewMasters, skewPartition, func(s *shards) error {
		_, skews, err := s.drain(ctx, l.scaled(100000, 2000))
		for _, at := range []int{50, 99, 100} {
			if err == nil {
				name := fmt.Sprintf("%d partitions on %d servers: order skew, p%d", skewPartition, skewMasters, at)
				figures = append(figures, figure{name, "ms", millis(quantile(skews, float64(at)/100))})
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%d servers: %w", skewMasters, err)
	}
	return append([]figure{
		{"1 partition on 1 server: whole lives by scripts alone", "jobs/s", lives[0]},
		{fmt.Sprintf("%d partitions on 2 servers: whole lives by scripts alone", partitions), "jobs/s", lives[1]},
		{"whole lives, 2 servers beside 1", "times", lives[1] / lives[0]},
		{"1 partition on 1 server: drained, rows in MariaDB", "jobs/s", drains[0]},
		{fmt.Sprintf("%d partitions on 2 servers: drained, rows in MariaDB", partitions), "jobs/s", drains[1]},
		{"drained, 2 servers beside 1", "times", drains[1] / drains[0]},
	}, figures...), nil
}

// evenly is the smallest number of partitions of which each of so many masters, with the slots given out evenly, has
// the same number.
func evenly(masters int) int {
	for n := masters; ; n += masters {
		of := make([]int, masters)
		for p := range n {
			of[testkit.Slot(queue.Key(p, "queue"))*masters/testkit.Slots]++
		}
		even := true
		for _, has := range of {
			even = even && has == n/masters
		}
		if even {
			return n
		}
	}
}

// shards is a Redis Cluster with so many partitions on it.
type shards struct {
	l          *lab
	partitions int
	masters    int
	client     *redis.ClusterClient
	queue      *queue.Queue
	database   string
	env        []string
}

// overMasters starts a cluster of so many masters for do, with the settings of the one Redis of the other benches, and
// stops it.
func (l *lab) overMasters(ctx context.Context, masters, partitions int, do func(*shards) error) (err error) {
	cluster, err := testkit.StartMasters(masters, "--auto-aof-rewrite-percentage", "0")
	if err != nil {
		return err
	}
	defer cluster.Stop()
	s := &shards{l: l, partitions: partitions, masters: masters}
	if l.database, s.env, err = l.renew(ctx, l.database); err != nil {
		return err
	}
	s.database = l.database
	s.env = append(s.env, "REDIS_URL="+cluster.URL(), "TIERQ_PARTITIONS="+strconv.Itoa(partitions),
		fmt.Sprintf("TIERQ_WORKERS=%d", growthSlots))
	o, err := redis.ParseClusterURL(cluster.URL())
	if err != nil {
		return fmt.Errorf("read the cluster's address: %w", err)
	}
	s.client = redis.NewClusterClient(o)
	defer s.client.Close()
	clients, err := queue.Connect(cluster.URL())
	if err != nil {
		return err
	}
	defer clients.Close()
	options := queueOptions()
	options.Partitions = partitions
	if s.queue, err = withPlans(ctx, clients, options); err != nil {
		return err
	}
	return do(s)
}

// lives brings n jobs through their lives, 100 a call, by growthLoops loops for each master, and returns how many that
// is a second. The sets are empty afterwards.
func (s *shards) lives(ctx context.Context, n int) (float64, error) {
	loops := growthLoops * s.masters
	errs := make([]error, loops)
	var group sync.WaitGroup
	began := time.Now()
	claims := make([]claiming, s.partitions)
	for i := range loops {
		group.Go(func() {
			for call := range n / loops / job.MaxBatch {
				p := (i + call) % s.partitions
				if errs[i] = s.life(ctx, p, &claims[p]); errs[i] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	done := n / loops / job.MaxBatch * loops * job.MaxBatch
	return perSecond(done, time.Since(began)), errors.Join(errs...)
}

// submit is one call of 100 jobs to a partition.
func (s *shards) submit(ctx context.Context, p int) error {
	batch := make([]job.Submission, job.MaxBatch)
	for i := range batch {
		batch[i] = submission("SIMULATION", []byte(nothing))
		batch[i].ID = batch[i].ID[:34] + job.ID(fmt.Sprintf("%02x", p)) // an id ends with its partition
	}
	replies, err := s.queue.Submit(ctx, p, batch)
	if err != nil {
		return err
	}
	for _, r := range replies {
		if r.Word != job.OK {
			return fmt.Errorf("submit answered %s", r.Word)
		}
	}
	return nil
}

// claiming lets the loops claim from a partition one after the other: the numbers of a process' claims come in their
// order.
type claiming struct {
	sync.Mutex
	number int64
}

// life is that of a call's jobs. Two loops may share a partition: who claims may get the jobs of the other, which is as
// good.
func (s *shards) life(ctx context.Context, p int, c *claiming) error {
	if err := s.submit(ctx, p); err != nil {
		return err
	}
	c.Lock()
	c.number++
	claimed, err := s.queue.Claim(ctx, p, job.ClaimRequest{Number: c.number, Max: job.MaxBatch, Bound: math.Inf(1)})
	c.Unlock()
	if err != nil {
		return err
	}
	ends, acks := make([]job.Completion, len(claimed.Leases)), make([]job.Ack, len(claimed.Leases))
	for i := range claimed.Leases {
		lease := &claimed.Leases[i]
		ends[i] = job.Completion{LeaseRef: lease.Ref(), Result: []byte(result)}
		acks[i] = job.Ack{ID: lease.ID, Generation: lease.Generation, Attempt: lease.Attempt, Status: job.Completed}
	}
	ended, err := s.queue.Complete(ctx, p, ends)
	if err != nil {
		return err
	}
	words, err := s.queue.Acknowledge(ctx, p, acks)
	if err != nil {
		return err
	}
	for i := range ends {
		if ended[i].Word != job.OK || words[i] != job.OK {
			return fmt.Errorf("complete answered %s, acknowledge %s", ended[i].Word, words[i])
		}
	}
	return nil
}

// drain queues n jobs, 100 a call, the partitions in turn, lets one server process drain them, and returns how many a
// second, and each job's skew: by how much a job that started before it had arrived later.
func (s *shards) drain(ctx context.Context, n int) (rate float64, skews []time.Duration, err error) {
	before, err := s.acknowledged(ctx)
	if err != nil {
		return 0, nil, err
	}
	for i := range n / job.MaxBatch {
		if err := s.submit(ctx, i%s.partitions); err != nil {
			return 0, nil, err
		}
	}
	n = n / job.MaxBatch * job.MaxBatch
	server, err := s.l.launch(ctx, fmt.Sprintf("growth-%d", s.masters), "worker,recovery", s.env)
	if err != nil {
		return 0, nil, err
	}
	var began time.Time
	first := 0
	watching := until(ctx, "drain", func() (bool, error) {
		select {
		case <-server.done:
			return false, errors.New("the server ended")
		default:
		}
		done, err := s.acknowledged(ctx)
		done -= before
		if done > 0 && began.IsZero() {
			began, first = time.Now(), done
		}
		return done >= n, err
	})
	took := time.Since(began)
	_, stopping := server.stop()
	if err := errors.Join(watching, stopping); err != nil {
		return 0, nil, err
	}
	if err := s.l.allThere(ctx, s.database, n); err != nil {
		return 0, nil, err
	}
	if rate = perSecond(n-first, took); n == first { // all at the first look
		rate = float64(n)
	}
	skews, err = s.skews(ctx)
	return rate, skews, err
}

// acknowledged is how many jobs SQL has, by Redis' counters.
func (s *shards) acknowledged(ctx context.Context) (sum int, err error) {
	for p := range s.partitions {
		n, err := s.client.HGet(ctx, queue.Key(p, "counters"), "acknowledged").Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, fmt.Errorf("read a counter: %w", err)
		}
		sum += n
	}
	return sum, nil
}

// skews are how much later than a job the latest of those had arrived that were claimed before it; 0 = none had. Redis'
// clock has milliseconds.
func (s *shards) skews(ctx context.Context) (skews []time.Duration, err error) {
	rows, err := s.l.db.QueryContext(ctx,
		"SELECT TIMESTAMPDIFF(MICROSECOND, '2000-01-01', arrived_at), TIMESTAMPDIFF(MICROSECOND, '2000-01-01', "+
			"started_at) FROM "+
			s.database+".job_results ORDER BY started_at, arrived_at")
	if err != nil {
		return nil, fmt.Errorf("read starts: %w", err)
	}
	defer rows.Close()
	var latest, newest, at int64 // latest: of those that started before the present millisecond; newest: of all so far
	for rows.Next() {
		var arrived, started int64
		if err := rows.Scan(&arrived, &started); err != nil {
			return nil, fmt.Errorf("read starts: %w", err)
		}
		if started > at {
			at, latest = started, newest
		}
		newest = max(newest, arrived)
		skews = append(skews, time.Duration(max(latest-arrived, 0))*time.Microsecond)
	}
	return skews, rows.Err()
}
