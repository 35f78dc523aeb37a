package images

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// Image is an image to upload to a cloud's image service.
type Image struct {
	Name       string
	File       string // on this host
	Format     string // "qcow2" or "raw"
	Size       int64  // bytes of the file
	SHA512     string // of the file, hexadecimal
	MinDiskGiB int
	Properties map[string]string
}

// digestProperty holds the digest of an image's file. Unlike the image service's own checksum it exists before the data, so that the remainder
// of an interrupted upload is found again.
const digestProperty = "naupegos_sha512"

// Result is an image in a cloud.
type Result struct {
	ID         string         `json:"id"`
	Name       string         `json:"name"`
	Status     string         `json:"status"`
	Format     string         `json:"format"`
	Size       int64          `json:"size"`
	SHA512     string         `json:"sha512"`
	MinDiskGiB int            `json:"minDiskGiB"`
	Properties map[string]any `json:"properties"`
	Done       string         `json:"done"` // Uploaded, Changed or Unchanged
}

// Outcomes of Upload.
const (
	Uploaded  = "uploaded"
	Changed   = "changed" // its properties
	Unchanged = "unchanged"
)

// Options selects the cloud of the image service, and bounds its calls.
type Options struct {
	Cloud, Region string        // as in the document; empty: $OS_CLOUD or OS_*
	Timeout       time.Duration // of the whole upload; default an hour
	Calls         cloud.Calls   // settings of the calls to the cloud
	Poll          time.Duration // pause between two polls of an image; default 1 second
}

// Service is a cloud's image service after login.
type Service struct {
	c    *cloud.Cloud
	me   cloud.User
	opts Options
}

// Open logs in.
func Open(ctx context.Context, o Options) (*Service, error) {
	o.Timeout, o.Poll = cmp.Or(o.Timeout, time.Hour), cmp.Or(o.Poll, time.Second)
	l, err := cloud.ReadLogin(o.Cloud, o.Region)
	if err != nil {
		return nil, err
	}
	c, err := cloud.Connect(ctx, l, o.Calls)
	if err != nil {
		return nil, err
	}
	me, err := c.WhoAmI()
	return &Service{c: c, me: me, opts: o}, err
}

// Upload ensures that the cloud has the complete image with its properties. It completes an interrupted upload of the same file; after a
// failure or a stop it leaves no partial image. It returns fail.Conflict if another image has the name or another upload of this image is in
// progress, fail.Interrupted, or the cloud's error.
func (s *Service) Upload(ctx context.Context, want Image, progress plan.Progress) (*Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Timeout,
		fail.New(fail.NotReady, "the upload took longer than %v", s.opts.Timeout).Do("give it a longer --timeout"))
	defer cancel()
	want.Properties = maps.Clone(want.Properties)
	if want.Properties == nil {
		want.Properties = map[string]string{}
	}
	want.Properties[digestProperty] = want.SHA512
	have, err := s.find(ctx, want)
	if err != nil {
		return nil, err
	}
	if have != nil && have.Status == images.ImageStatusActive {
		return s.mend(ctx, want, have)
	}
	if have == nil {
		progress.Status("creating image %s", want.Name)
		if have, err = s.create(ctx, want); err != nil {
			return nil, err
		}
	}
	if err := s.send(ctx, want, have.ID, progress); err != nil {
		return nil, s.undo(ctx, have.ID, err)
	}
	made, err := s.await(ctx, want, have.ID, progress)
	if err != nil {
		return nil, s.undo(ctx, have.ID, err)
	}
	out, err := s.mend(ctx, want, made)
	if err == nil {
		out.Done = Uploaded
	}
	return out, err
}

// find returns the image, complete or as an interrupted upload left it; nil if there is none that can be completed. It waits up to settleTime for
// an image that is "saving".
func (s *Service) find(ctx context.Context, want Image) (*images.Image, error) {
	for began := time.Now(); ; {
		all, err := cloud.Pages(ctx, images.List(s.c.Image, images.ListOpts{Name: want.Name, Owner: s.me.Project.ID}), images.ExtractImages)
		if err != nil {
			return nil, cloud.Wrap(err, "look for image %s", want.Name)
		}
		var mine, others []images.Image
		for _, i := range all {
			if i.Properties[digestProperty] == want.SHA512 {
				mine = append(mine, i)
			} else {
				others = append(others, i)
			}
		}
		if err := s.clear(ctx, want.Name, others); err != nil {
			return nil, err
		}
		i := slices.IndexFunc(mine, func(i images.Image) bool { return i.Status == images.ImageStatusActive })
		switch {
		case i >= 0:
			return &mine[i], nil
		case len(mine) == 0:
			return nil, nil
		case mine[0].Status == images.ImageStatusQueued:
			return &mine[0], nil
		case mine[0].Status != images.ImageStatusSaving:
			return nil, s.delete(ctx, mine[0].ID) // killed: it accepts no more data
		case time.Since(began) > settleTime:
			return nil, fail.New(fail.Conflict, "another process has been uploading image %s since %s", want.Name, mine[0].UpdatedAt.Local().Format(time.DateTime)).At(mine[0].ID).
				Do("wait for it; if it was interrupted, delete the image and run the same command again")
		}
		if err := cloud.Sleep(ctx, s.opts.Poll); err != nil {
			return nil, err
		}
	}
}

// settleTime bounds the wait for an image in state "saving", which the service reports for a moment after an interrupted upload.
const settleTime = 30 * time.Second

// clear ensures that the name is unused, because a name in a document must identify one image. It deletes the remainders of interrupted
// uploads of other files, which hold no data.
func (s *Service) clear(ctx context.Context, name string, others []images.Image) error {
	for _, i := range others {
		_, ours := i.Properties[digestProperty]
		if ours && (i.Status == images.ImageStatusQueued || i.Status == images.ImageStatusKilled) {
			if err := s.delete(ctx, i.ID); err != nil {
				return err
			}
			continue
		}
		return fail.New(fail.Conflict, "the project has another image called %s, of %s", name, i.CreatedAt.Local().Format(time.DateTime)).At(i.ID).
			Do("give another --name, or rename or delete that one")
	}
	return nil
}

func (s *Service) create(ctx context.Context, want Image) (*images.Image, error) {
	private := images.ImageVisibilityPrivate
	made, err := images.Create(ctx, s.c.Image, images.CreateOpts{
		Name: want.Name, DiskFormat: want.Format, ContainerFormat: "bare", Visibility: &private, MinDisk: want.MinDiskGiB, Properties: want.Properties,
	}).Extract()
	return made, cloud.Wrap(err, "make image %s", want.Name)
}

// await waits until the image is active and compares it with the file.
func (s *Service) await(ctx context.Context, want Image, id string, progress plan.Progress) (*images.Image, error) {
	for {
		i, err := images.Get(ctx, s.c.Image, id).Extract()
		if err != nil {
			return nil, cloud.Wrap(err, "look at image %s", want.Name)
		}
		switch i.Status {
		case images.ImageStatusActive:
			return i, sameData(want, i)
		case images.ImageStatusQueued, images.ImageStatusKilled, images.ImageStatusDeleted:
			return nil, fail.New(fail.Unreachable, "the cloud did not take the data: the image is %s", i.Status).At(id).Do("run the same command again")
		}
		progress.Status("waiting for the cloud to store image %s", want.Name)
		if err := cloud.Sleep(ctx, s.opts.Poll); err != nil {
			return nil, err
		}
	}
}

// sameData returns fail.Conflict if an active image does not hold the file's data, judged by its size and, if the image service computes it, its
// SHA-512.
func sameData(want Image, i *images.Image) error {
	sum := i.Properties["os_hash_value"]
	if i.SizeBytes == want.Size && (i.Properties["os_hash_algo"] != "sha512" || sum == want.SHA512) {
		return nil
	}
	return fail.New(fail.Conflict, "image %s of the cloud is not the file: it has %d bytes and SHA-512 %v", i.Name, i.SizeBytes, sum).At(i.ID).
		Do("delete it and run the same command again")
}

// mend compares an active image with the wanted one, and updates its minimum disk and the wanted properties that differ. It leaves other
// properties alone.
func (s *Service) mend(ctx context.Context, want Image, have *images.Image) (*Result, error) {
	if err := sameData(want, have); err != nil {
		return nil, err
	}
	done := Unchanged
	if patch := imageChanges(want, have); len(patch) > 0 {
		changed, err := images.Update(ctx, s.c.Image, have.ID, patch).Extract()
		if err != nil {
			return nil, cloud.Wrap(err, "set the properties of image %s", want.Name)
		}
		have, done = changed, Changed
	}
	return &Result{
		ID: have.ID, Name: have.Name, Status: string(have.Status), Format: have.DiskFormat, Size: have.SizeBytes, SHA512: want.SHA512,
		MinDiskGiB: have.MinDiskGigabytes, Properties: have.Properties, Done: done,
	}, nil
}

func imageChanges(want Image, have *images.Image) images.UpdateOpts {
	var patch images.UpdateOpts
	if have.MinDiskGigabytes != want.MinDiskGiB {
		patch = append(patch, images.ReplaceImageMinDisk{NewMinDisk: want.MinDiskGiB})
	}
	for _, name := range slices.Sorted(maps.Keys(want.Properties)) {
		switch value, ok := have.Properties[name]; {
		case !ok:
			patch = append(patch, images.UpdateImageProperty{Op: images.AddOp, Name: name, Value: want.Properties[name]})
		case value != want.Properties[name]:
			patch = append(patch, images.UpdateImageProperty{Op: images.ReplaceOp, Name: name, Value: want.Properties[name]})
		}
	}
	return patch
}

func (s *Service) delete(ctx context.Context, id string) error {
	return cloud.Wrap(cloud.UnlessGone(images.Delete(ctx, s.c.Image, id).ExtractErr()), "delete image %s", id)
}
