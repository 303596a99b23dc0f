package config

import (
	"net/url"

	"github.com/espalier-run/espalier/internal/text"
)

// Objects is a bucket of S3-compatible object storage for the large values of runs in a database.
type Objects struct {
	Endpoint             text.Text // an https or http URL without a path; empty if there is no bucket
	Bucket, Prefix       text.Text
	Region               text.Text
	AccessKey, SecretKey text.Text // references to secrets; if empty, those of the environment
	PathStyle            bool
	// Above is the size in bytes of the largest value that stays in the database; 0 is the default.
	Above int64
	// Unapproved says that no person has approved the bucket.
	Unapproved bool
}

// Shown returns the address of the bucket.
func (o *Objects) Shown() string { return o.Endpoint.Value + "/" + o.Bucket.Value }

func (o *Objects) read(f *fields) {
	o.Endpoint = f.text("endpoint", "The URL of the S3-compatible service, such as "+
		"https://s3.eu-central-1.amazonaws.com.")
	o.Bucket = f.text("bucket", "The name of the bucket, which exists.")
	o.Prefix = f.text("prefix", "The start of the names of all objects, such as espalier/.")
	o.Region = f.text("region", "The region of the bucket, if the service needs it.")
	o.AccessKey = f.text("access_key", "The ID of the access key, or secret://NAME. If not set, the credentials are "+
		"those of the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) or of the machine.")
	o.SecretKey = f.text("secret_key", "The secret access key: secret://NAME.")
	o.PathStyle = f.flag("path_style", "true: put the bucket into the path of the URL instead of its host.")
	o.Above = f.number("above_kib", "Values larger than this are objects, in KiB; default 1024.", 1, 1<<20) << 10
	if missing := o.Endpoint.Value == ""; missing != (o.Bucket.Value == "") {
		span := o.Endpoint.Span
		if missing {
			span = o.Bucket.Span
		}
		f.out.Errorf(CodeMissing, span, "Add the line that is missing.",
			"Object storage needs an endpoint and a bucket.")
	}
	f.checkKey(o.SecretKey, "secret_key: secret://NAME")
	if (o.AccessKey.Value == "") != (o.SecretKey.Value == "") {
		f.out.Errorf(CodeMissing, o.Endpoint.Span, "Set both, or none to use those of the environment.",
			"access_key and secret_key belong together.")
	}
	u, err := url.Parse(o.Endpoint.Value)
	if o.Endpoint.Value != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" ||
		u.Path != "" && u.Path != "/") {
		f.out.Errorf(CodeBadValue, o.Endpoint.Span, "Write endpoint: https://s3.example.com.",
			"%q is not the URL of a service.", o.Endpoint.Value)
	}
}
