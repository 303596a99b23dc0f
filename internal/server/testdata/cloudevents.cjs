// Sends CloudEvents with the official SDK. Arguments: the folder of the package,
// the address of the server, a token. Each line of stdin is an event with a
// mode; each line of stdout is the answer.
const [, , dir, url, token] = process.argv;
const { CloudEvent, HTTP } = require(dir + "/node_modules/cloudevents");
const lines = require("fs").readFileSync(0, "utf8").trim().split("\n");
(async () => {
  for (const line of lines) {
    const { mode, ...attributes } = JSON.parse(line);
    const message = HTTP[mode](new CloudEvent(attributes));
    const answer = await fetch(url, {
      method: "POST", body: message.body, headers: { ...message.headers, authorization: "Bearer " + token },
    });
    console.log(JSON.stringify({ status: answer.status, ...(await answer.json()) }));
  }
})();
