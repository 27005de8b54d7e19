import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { readable } from "../../src/program/log.ts";
import { until } from "../support/until.ts";

const source = JSON.stringify(new URL("../../src/program/log.ts", import.meta.url).href);

/** Logs more than any pipe and buffer on the way holds, a little per turn, and says on standard error when it has. */
const talkative = `
  import { writeSync } from "node:fs";
  import { openLog } from ${source};
  const log = openLog({ level: "info", component: "test", env: process.env });
  for (let turn = 0; turn < 200; turn += 1) {
    for (let line = 0; line < 50; line += 1) log.info("x".repeat(1000));
    await new Promise((resolve) => setImmediate(resolve));
  }
  writeSync(2, "went on\\n");
  process.stdin.resume();`;

describe("the log of a service", () => {
  for (const form of ["json", "text"]) {
    it(`in ${form} delays nothing where nobody reads it, and reports the lost lines to the next reader`, async () => {
      const child = spawn(process.execPath, ["--input-type=module", "--eval", talkative], {
        env: { ...process.env, BERTH_LOG: form },
      });
      let heard = "";
      let text = "";
      child.stderr.on("data", (chunk) => (heard += String(chunk)));
      try {
        await until("it went on", () => heard.includes("went on"));
        child.stdout.on("data", (chunk) => (text += String(chunk)));
        const lines = await until("it tells", () => /(\d+) lines of this log are lost/.exec(text)?.[1]);
        const seen = text.split("\n").filter((line) => line.includes("xxx")).length;
        assert.equal(seen + Number(lines), 10_000);
        child.stdin.end();
        const [code] = await once(child, "close");
        assert.equal(code, 0);
      } finally {
        child.kill("SIGKILL");
      }
    });
  }

  it("in text neither commands the terminal nor holds a forged line", () => {
    const msg = "an engine said \u001B[2J\u009B31m\n12:00:00 info  operator primary is ready\u0000";
    const said = readable(JSON.stringify({ time: 0, level: 30, component: "operator", msg })).slice(9);
    assert.equal(
      said,
      "info  operator an engine said \\u001b[2J\\u009b31m\n  12:00:00 info  operator primary is ready\\u0000\n",
    );
  });

  it("in text names the request of a failure, and of no other line", () => {
    const entry = { time: 0, level: 50, component: "gateway", requestId: "ab-1", msg: "request failed" };
    assert.equal(
      readable(JSON.stringify({ ...entry, err: { message: "no such file" } })).slice(9),
      "error gateway  request failed (no such file) requestId=ab-1\n",
    );
    assert.equal(readable(JSON.stringify(entry)).slice(9), "error gateway  request failed\n");
  });

  it("says its last line also where the process ends at once", async () => {
    const program = `
      import { openLog } from ${source};
      openLog({ level: "info", component: "test", env: process.env }).fatal("the end");
      process.exit(3);`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
      env: { ...process.env, BERTH_LOG: "text" },
    });
    let text = "";
    child.stdout.on("data", (chunk) => (text += String(chunk)));
    const [code] = await once(child, "close");
    assert.equal(code, 3);
    assert.match(text, /^\d\d:\d\d:\d\d fatal test +the end\n$/);
  });
});
