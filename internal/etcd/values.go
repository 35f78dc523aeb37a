package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// page is how many keys one request asks for.
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
