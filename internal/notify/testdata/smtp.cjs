// A mail server. Argument: the folder of the package. Prints its port, then one
// line of JSON for each mail, until stdin ends.
const { SMTPServer } = require(process.argv[2] + "/node_modules/smtp-server");
const server = new SMTPServer({
  authOptional: true, disabledCommands: ["STARTTLS"],
  onData(stream, session, done) {
    let raw = "";
    stream.on("data", (chunk) => (raw += chunk));
    stream.on("end", () => {
      console.log(JSON.stringify({
        from: session.envelope.mailFrom.address, to: session.envelope.rcptTo.map((r) => r.address), raw,
      }));
      done();
    });
  },
});
server.listen(0, "127.0.0.1", () => console.log(server.server.address().port));
process.stdin.on("end", () => process.exit()).resume();
