package cloud

import (
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// CheckHome refuses credentials for another place than the cluster's. An empty home matches any place.
func (c *Cloud) CheckHome(home, cluster string) error {
	if home == "" {
		return nil
	}
	me, err := c.WhoAmI()
	if err != nil {
		return err
	}
	project, region, _ := strings.Cut(home, " ")
	if me.Project.ID == project && c.Region == region {
		return nil
	}
	return fail.New(fail.Refused, "the credentials of %s are for project %s (%s)%s, and the cluster lives in project %s%s",
		c.Login.Source, me.Project.Name, me.Project.ID, inRegion(c.Region), project, inRegion(region)).At(cluster).
		Do("use the cloud, project and region that it was made with")
}

func inRegion(region string) string {
	if region == "" {
		return ""
	}
	return " in region " + region
}
