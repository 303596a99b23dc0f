// Signs the text on stdin with the library of Standard Webhooks. Arguments: the
// folder of the package, a secret, an id, a time in seconds.
const [, , dir, secret, id, seconds] = process.argv;
const { Webhook } = require(dir + "/node_modules/standardwebhooks");
const body = require("fs").readFileSync(0, "utf8");
console.log(new Webhook(secret).sign(id, new Date(seconds * 1000), body));
