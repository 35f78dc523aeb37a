package etcd

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// page is the number of keys per request.
const page = 200

// Values calls visit for every key that begins with prefix, in their order, as they were at a revision, which it returns; 0 is the one at which
// the first page is read. It ends at the first error of visit and returns it.
func (c *Client) Values(ctx context.Context, prefix string, revision int64, visit func(key, value []byte) error) (int64, error) {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		rctx, cancel := c.request(ctx)
		r, err := c.all.Get(rctx, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(revision),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
		cancel()
		if err != nil {
			return 0, classify(ctx, err, "read etcd below %s", prefix)
		}
		for _, kv := range r.Kvs {
			if err := visit(kv.Key, kv.Value); err != nil {
				return 0, err
			}
		}
		if revision == 0 {
			revision = r.Header.Revision
		}
		if !r.More {
			return revision, nil
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
}

// Keys returns all keys that begin with prefix, in their order, and the revision at which they were there.
func (c *Client) Keys(ctx context.Context, prefix string) (keys []string, revision int64, err error) {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		rctx, cancel := c.request(ctx)
		r, err := c.all.Get(rctx, from, clientv3.WithRange(end), clientv3.WithLimit(keysPage), clientv3.WithRev(revision), clientv3.WithKeysOnly())
		cancel()
		if err != nil {
			return nil, 0, classify(ctx, err, "read etcd's keys below %s", prefix)
		}
		if revision == 0 {
			revision = r.Header.Revision
		}
		for _, kv := range r.Kvs {
			keys = append(keys, string(kv.Key))
		}
		if !r.More {
			return keys, revision, nil
		}
		from = keys[len(keys)-1] + "\x00"
	}
}

// keysPage is the number of keys, without their values, per request.
const keysPage = 5000

// Delete removes keys. Missing keys are not an error.
func (c *Client) Delete(ctx context.Context, keys []string) error {
	for part := range slices.Chunk(keys, 100) { // etcd accepts at most 128 operations per transaction
		var ops []clientv3.Op
		for _, k := range part {
			ops = append(ops, clientv3.OpDelete(k))
		}
		rctx, cancel := c.request(ctx)
		_, err := c.all.Txn(rctx).Then(ops...).Commit()
		cancel()
		if err != nil {
			return classify(ctx, err, "delete %d keys of etcd", len(keys))
		}
	}
	return nil
}

// Get returns the value of a key, or nil if the key does not exist.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := c.request(ctx)
	defer cancel()
	r, err := c.all.Get(ctx, key)
	if err != nil {
		return nil, classify(ctx, err, "read %s of etcd", key)
	}
	if len(r.Kvs) == 0 {
		return nil, nil
	}
	return r.Kvs[0].Value, nil
}

// Put writes a key.
func (c *Client) Put(ctx context.Context, key string, value []byte) error {
	ctx, cancel := c.request(ctx)
	defer cancel()
	if _, err := c.all.Put(ctx, key, string(value)); err != nil {
		return classify(ctx, err, "write %s of etcd", key)
	}
	return nil
}
