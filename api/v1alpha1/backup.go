package v1alpha1

// Backup says where backups of the cluster go, who can open them, and which ones are kept.
type Backup struct {
	// Where backups are kept: exactly one of these fields. Left out: the directory backups in the store's directory.
	To *BackupTarget `json:"to,omitempty" yaml:"to,omitempty"`
	// Public age keys ("age1…") whose owners can open backups, in addition to the store's own key.
	Recipients []string `json:"recipients,omitempty" yaml:"recipients,omitempty" jsonschema:"maxItems=20"`
	// Which backups are kept when a new one has been made, and at naupegos backup prune. Left out: all. The newest proven backup is always kept.
	Keep *BackupKeep `json:"keep,omitempty" yaml:"keep,omitempty"`
	// When control-plane machines make backups by themselves, one machine each time, in cron format and in UTC: minute, hour, day of the month, month, day of the week, such as "0 */12 * * *"; or @hourly, @daily, @weekly, @monthly. They write to the target in to: a bucket or container, with the credentials found where naupegos runs, or a directory that all of them have mounted.
	Schedule string `json:"schedule,omitempty" yaml:"schedule,omitempty"`
}

// BackupTarget is where backups are kept.
type BackupTarget struct {
	// Absolute path of a directory on the host where naupegos runs.
	Directory string `json:"directory,omitempty" yaml:"directory,omitempty" host:"directory"`
	// Bucket of a service with the S3 API.
	S3 *BackupS3 `json:"s3,omitempty" yaml:"s3,omitempty"`
	// Container of an object store with OpenStack's API.
	Swift *BackupSwift `json:"swift,omitempty" yaml:"swift,omitempty"`
}

// BackupS3 is a bucket. Its credentials are not part of the document.
type BackupS3 struct {
	// Address of the service, such as https://s3.example.org.
	Endpoint string `json:"endpoint" yaml:"endpoint" jsonschema:"required" host:"address"`
	// Name of the bucket, which must exist.
	Bucket string `json:"bucket" yaml:"bucket" jsonschema:"required,maxLength=63,pattern=^[a-z0-9][-a-z0-9.]*[a-z0-9]$"`
	// Prefix of all object names, such as kubernetes/site-a.
	Prefix string `json:"prefix,omitempty" yaml:"prefix,omitempty"`
	// Region of the bucket, if the service has regions.
	Region string `json:"region,omitempty" yaml:"region,omitempty"`
	// CA certificate (PEM) of the service, if this host does not trust it already.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" host:"none"`
	// Absolute path of a credentials file in the format of the AWS command line ([default] with aws_access_key_id and aws_secret_access_key). Left out: $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY, else ~/.aws/credentials.
	CredentialsFile string `json:"credentialsFile,omitempty" yaml:"credentialsFile,omitempty" host:"file"`
	// Name of a credential (naupegos server credential add) whose value is the content of such a file, instead of credentialsFile. A server accepts nothing else.
	Credential string `json:"credential,omitempty" yaml:"credential,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"credential"`
}

// BackupSwift is a container of an object store in an OpenStack cloud: Swift, or Ceph's gateway. The application credential for it is not part of the
// document.
type BackupSwift struct {
	// Address of the identity service (Keystone), such as https://cloud.example.org:5000/v3.
	AuthURL string `json:"authURL" yaml:"authURL" jsonschema:"required" host:"address"`
	// Name of the container, which must exist.
	Container string `json:"container" yaml:"container" jsonschema:"required,maxLength=256"`
	// Prefix of all object names, such as kubernetes/site-a.
	Prefix string `json:"prefix,omitempty" yaml:"prefix,omitempty"`
	// Region of the object store, if the cloud has several.
	Region string `json:"region,omitempty" yaml:"region,omitempty" jsonschema:"maxLength=255"`
	// CA certificate (PEM) of the services, if this host does not trust it already.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" host:"none"`
	// Absolute path of a file with the lines OS_APPLICATION_CREDENTIAL_ID=… and OS_APPLICATION_CREDENTIAL_SECRET=…, each with or without a leading export. Left out: the environment variables of these names.
	CredentialsFile string `json:"credentialsFile,omitempty" yaml:"credentialsFile,omitempty" host:"file"`
	// Name of a credential (naupegos server credential add) whose value is the content of such a file, instead of credentialsFile. A server accepts nothing else.
	Credential string `json:"credential,omitempty" yaml:"credential,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"credential"`
}

// BackupKeep says which backups are kept: each that at least one of these fields keeps.
type BackupKeep struct {
	// Keep this many of the newest backups.
	Last int `json:"last,omitempty" yaml:"last,omitempty" jsonschema:"minimum=1,maximum=10000"`
	// Keep the newest backup of each day (UTC), for this many days that have one.
	Days int `json:"days,omitempty" yaml:"days,omitempty" jsonschema:"minimum=1,maximum=10000"`
	// Keep the newest backup of each week (UTC, from Monday), for this many weeks that have one.
	Weeks int `json:"weeks,omitempty" yaml:"weeks,omitempty" jsonschema:"minimum=1,maximum=10000"`
}
