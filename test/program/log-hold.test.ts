import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { holdLog, holdMessage, releaseLog, releaseMessage, writeUnheld } from "../../src/program/log-hold.ts";
import { until } from "../support/until.ts";

const moduleAt = (name: string): string => JSON.stringify(new URL(`../../src/program/${name}`, import.meta.url).href);

/** Logs a line on request, and ends with its parent. */
const program = `
  import { openLog } from ${moduleAt("log.ts")};
  import { followHolds } from ${moduleAt("log-hold.ts")};
  const log = openLog({ level: "info", component: "test", env: process.env });
  followHolds();
  process.on("message", (message) => {
    if (message === "exit") process.exit(3);
    if (message !== "say") return;
    log.info("the line");
    process.send("said");
  });
  process.send("listens");`;

describe("the log while it is held", () => {
  it("keeps its lines in their order until it is released", () => {
    const seen: string[] = [];
    const write = (line: string): void => writeUnheld(() => void seen.push(line));
    write("before");
    holdLog();
    holdLog();
    write("first");
    write("second");
    seen.push("what is shown meanwhile");
    releaseLog();
    write("after");
    releaseLog();
    assert.deepEqual(seen, ["before", "what is shown meanwhile", "first", "second", "after"]);
  });

  it("is released where it holds too much", () => {
    let seen = 0;
    holdLog();
    for (let line = 0; line < 999; line += 1) writeUnheld(() => (seen += 1));
    assert.equal(seen, 0);
    writeUnheld(() => (seen += 1));
    assert.equal(seen, 1000);
    writeUnheld(() => (seen += 1));
    assert.equal(seen, 1001);
  });

  for (const end of ["it is released", "its process exits", "its parent is gone"]) {
    it(`of a child loses nothing when ${end}`, async () => {
      const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
        env: { ...process.env, BERTH_LOG: "text" },
        stdio: ["ignore", "pipe", "inherit", "ipc"],
      });
      let text = "";
      child.stdout?.on("data", (chunk) => (text += String(chunk)));
      try {
        await once(child, "message");
        child.send(holdMessage);
        child.send("say");
        await once(child, "message");
        // Of a channel that this side has closed there may be no `close`.
        const closed = once(child, end === "its process exits" ? "close" : "exit");
        if (end === "its process exits") child.send("exit");
        else {
          if (end === "it is released") child.send(releaseMessage);
          else child.disconnect();
          await until("the line is there", () => text.includes("the line"));
          if (child.connected) child.disconnect();
        }
        assert.deepEqual(await closed, [end === "its process exits" ? 3 : 0, null]);
        assert.match(text, /^\d\d:\d\d:\d\d info {2}test +the line\n$/);
      } finally {
        child.kill("SIGKILL");
      }
    });
  }
});
