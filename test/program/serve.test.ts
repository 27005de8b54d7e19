import assert from "node:assert/strict";
import { rename, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { it } from "node:test";
import { openPublisher } from "../../src/store/state/publisher.ts";
import { startBerth } from "../support/berth.ts";
import { freePort } from "../support/free-port.ts";
import { publishedSlot } from "../support/gateway.ts";
import { later } from "../support/later.ts";
import { listen } from "../support/listen.ts";
import { scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";
import { chat } from "./coder.ts";

it("berth serve names the port that is taken, with what to do", async () => {
  const taken = createServer();
  const port = await listen(taken);
  try {
    await using berth = await startBerth({ args: ["serve", "--port", String(port)] });
    assert.equal(await berth.ended, 1);
    assert.match(
      berth.log(),
      new RegExp(`^\\S+ fatal gateway {2}port ${port} is taken; stop that program or set SVC_PORT to another port\n$`),
    );
  } finally {
    taken.close();
  }
});

it("berth serve --reload starts again with an edited berth.toml, and not with an invalid one", async () => {
  const [first, second] = [await freePort(), await freePort()];
  const settings = (port: string): string => `port = ${port}\nhost = "127.0.0.1"\n`;
  await using berth = await startBerth({
    args: ["serve", "--reload"],
    env: { SVC_PORT: "", SVC_HOST: "" },
    prepare: ({ configDir }) => writeFile(join(configDir, "berth.toml"), settings(String(first))),
  });
  const answers = async (port: number): Promise<boolean> =>
    (await fetch(`http://127.0.0.1:${port}/livez`).catch(() => undefined))?.ok === true;
  // By a rename: a file that is empty for a moment would be one without settings.
  const edit = async (port: string): Promise<void> => {
    await writeFile(join(berth.configDir, "edited.toml"), settings(port));
    await rename(join(berth.configDir, "edited.toml"), join(berth.configDir, "berth.toml"));
  };
  await until("it listens", () => answers(first));
  await edit("99999999");
  await until("the problem is told", () =>
    /reload +berth\.toml port must be.*keeps running unchanged/.test(berth.log()),
  );
  assert.ok(await answers(first));
  await edit(String(second));
  await until("it listens elsewhere", () => answers(second));
  assert.ok(!(await answers(first)));
  assert.equal(await berth.stop("SIGINT"), 0);
  assert.ok(!(await answers(second)));
});

it("berth serve ends at once at the second signal, whatever is still being answered", async () => {
  await using engine = await scriptedEngine(() => undefined);
  await using gateway = await startBerth({
    args: ["serve"],
    env: { SVC_DRAIN_SECONDS: "3600" },
    prepare: async ({ configDir }) => {
      const publisher = await openPublisher(join(configDir, "../state"));
      await publisher.writeSlot(publishedSlot("coder", { port: engine.port }, 1));
    },
  });
  await until("it answers", async () => (await fetch(`${gateway.url}/livez`)).ok);
  const asked = later(chat(gateway));
  await until("the engine works on it", () => engine.seen.length === 1);
  gateway.child.kill("SIGTERM");
  await until("it drains", async () => (await fetch(`${gateway.url}/readyz`)).status === 503);
  assert.equal(await gateway.stop("SIGTERM"), 0);
  const told = await asked;
  assert.equal(told.status, 503);
  assert.match(told.headers.get("retry-after") ?? "", /^\d+$/);
});
