package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// page is how many keys one request asks for.
const page = 200

// Values calls visit for every key that begins with prefix, in their order, as they were when the first page was read. It ends at the first
// error of visit and returns it.
func (c *Client) Values(ctx context.Context, prefix string, visit func(key, value []byte) error) error {
	from, end, revision := prefix, clientv3.GetPrefixRangeEnd(prefix), int64(0)
	for {
		rctx, cancel := c.request(ctx)
		r, err := c.all.Get(rctx, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(revision),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
		cancel()
		if err != nil {
			return classify(ctx, err, "read etcd below %s", prefix)
		}
		for _, kv := range r.Kvs {
			if err := visit(kv.Key, kv.Value); err != nil {
				return err
			}
		}
		if !r.More {
			return nil
		}
		from, revision = string(r.Kvs[len(r.Kvs)-1].Key)+"\x00", r.Header.Revision
	}
}
