// A receiver of webhooks. Arguments: the folder of the package, the secret.
// Prints its port, then what the library of Standard Webhooks has verified, one
// line each, until stdin ends.
const { Webhook } = require(process.argv[2] + "/node_modules/standardwebhooks");
const hook = new Webhook(process.argv[3]);
const server = require("http").createServer((req, res) => {
  let body = "";
  req.on("data", (chunk) => (body += chunk));
  req.on("end", () => {
    try {
      console.log(JSON.stringify(hook.verify(body, req.headers)));
      res.writeHead(204).end();
    } catch (e) {
      console.log(JSON.stringify({ error: e.message }));
      res.writeHead(401).end();
    }
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit()).resume();
