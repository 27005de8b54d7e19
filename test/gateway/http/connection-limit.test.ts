import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { request as httpRequest } from "node:http";
import { text as textOf } from "node:stream/consumers";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { connectionLimits } from "../../../src/gateway/http/connection-limit.ts";
import { scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";

/** `STATUS CODE`, or the code of a connection that was closed. */
async function ask(url: string): Promise<string> {
  return await new Promise((resolve) => {
    const request = httpRequest(`${url}/v1/chat/completions`, {
      method: "POST",
      agent: false,
      headers: { "content-type": "application/json" },
    });
    request.once("response", (response) => {
      textOf(response).then(
        (body) => resolve(`${response.statusCode} ${/"code":"([\w.]+)"/.exec(body)?.[1] ?? ""}`.trim()),
        () => resolve("closed"),
      );
    });
    request.once("error", () => resolve("closed"));
    request.end('{"model":"primary","messages":[]}');
  });
}

describe("a gateway that may open few files", () => {
  it("completes as many requests as it can serve, refuses the rest early, and reports no engine as failed", async () => {
    const files = 160;
    const { served } = connectionLimits(files);
    const turn = Promise.withResolvers<void>();
    await using engine = await scriptedEngine(async (response) => {
      await turn.promise;
      response.writeHead(200, { "content-type": "application/json" }).end('{"choices":[]}');
    });
    // The hard limit, so that Node cannot raise it.
    const script = fileURLToPath(new URL("scarce-gateway.ts", import.meta.url));
    const node = [process.execPath, "--disable-warning=ExperimentalWarning", script, String(engine.port)];
    const child = spawn("sh", ["-c", `ulimit -n ${files}; exec "$@"`, "sh", ...node], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    let said = "";
    child.stdout.on("data", (chunk: Buffer) => (said += chunk.toString()));
    const ended = new Promise((resolve) => child.once("exit", resolve));
    try {
      const url = await until("it listens", () => /^http\S+/.exec(said)?.[0]);
      const first = Array.from({ length: served }, () => ask(url));
      await until("they are with the engine", () => engine.seen.length === served);
      const answers: string[] = [];
      const rest = 168;
      for (let nth = 0; nth < rest; nth += 1) void ask(url).then((answer) => answers.push(answer));
      // On a slow machine a connection that has sent nothing yet makes room for a later one.
      await until("the rest are away", () => answers.length + engine.seen.length === served + rest);
      // How many are closed before the gateway could answer depends on how fast it accepts.
      const kinds = new Set(answers);
      kinds.delete("closed");
      assert.deepEqual(kinds, new Set(["503 system.overloaded"]));
      turn.resolve();
      assert.deepEqual(new Set(await Promise.all(first)), new Set(["200"]));
      // The gateway learns a moment later than its clients that their connections are closed.
      await until("there is room again", async () => (await ask(url)) === "200");
    } finally {
      turn.resolve();
      child.stdin.end();
      await ended;
    }
    assert.match(said, /160 files and connections may be open at once .*32 clients are served/);
  });
});
