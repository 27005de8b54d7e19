import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { isRecord } from "../../src/lib/record.ts";
import { startProvider } from "../doubles/provider.ts";
import { chat } from "../paths/fixture.ts";
import { followEvents } from "../gateway/management/event-reader.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { ggufBytes } from "../support/gguf.ts";
import { until } from "../support/until.ts";

const asks = (baseUrl: string): string => `baseUrl: ${baseUrl}\nretries: 0\nmodels:\n  - ref: big\n`;

/** Each as `1 Upstream Stalled InvalidSpec`. */
async function counts(berth: RunningBerth): Promise<string[]> {
  const health = await berth.get("/api/health/system");
  const checks = isRecord(health) && isRecord(health["checks"]) ? health["checks"] : {};
  const found = isRecord(checks["conditions"]) ? checks["conditions"]["counts"] : undefined;
  const all = Array.isArray(found) ? found.filter(isRecord) : [];
  return all.map(({ kind, type, reason, count }) => [count, kind, type, reason].join(" ")).toSorted();
}

async function told(berth: RunningBerth): Promise<{ status: string; metrics: string }> {
  return {
    status: (await runBerth(["status"], { SVC_URL: berth.url })).stdout,
    metrics: await (await fetch(new URL("/metrics", berth.url))).text(),
  };
}

async function waitFor(berth: RunningBerth, what: string, wanted: readonly string[]): Promise<void> {
  try {
    await until(what, async () => isDeepStrictEqual(await counts(berth), wanted.toSorted()));
  } catch (error) {
    throw new Error(`${what}: ${(await counts(berth)).join(", ")}\n${berth.log()}`, { cause: error });
  }
}

const isOf =
  (kind: string, name: string, reason: string) =>
  (data: unknown): boolean =>
    isRecord(data) && data["kind"] === kind && data["name"] === name && JSON.stringify(data).includes(`"${reason}"`);

test("a provider's broken manifest shows as event, in the API, health, status and a metric, and no more once it is mended", async () => {
  await using double = await startProvider({ models: ["m1"] });
  await using berth = await startBerth({
    async prepare({ configDir }) {
      await mkdir(join(configDir, "upstreams"));
      await writeFile(join(configDir, "upstreams/acme.yaml"), asks(double.baseUrl));
    },
  });
  const file = join(berth.configDir, "upstreams/acme.yaml");
  const env = { SVC_URL: berth.url };
  await until("the provider is known", async () => JSON.stringify(await berth.get("/api/upstreams")).includes("acme"));
  await waitFor(berth, "nothing is wrong", []);
  using events = await followEvents(berth.url);
  const { data: snapshot } = await events.find("snapshot");
  assert.match(JSON.stringify(snapshot), /"kind":"Upstream","name":"acme".*"reason":"Serving"/);

  await writeFile(file, `${asks(double.baseUrl)}colour: red\n`);
  await events.find("condition", isOf("Upstream", "acme", "InvalidSpec"));
  await waitFor(berth, "health says so", ["1 Upstream Stalled InvalidSpec"]);
  const broken = await told(berth);
  assert.match(broken.status, /, degraded\n {2}conditions: degraded 1 Upstream Stalled InvalidSpec\n/);
  assert.match(broken.status, /^ {4}Upstream acme: Stalled InvalidSpec: .*acme\.yaml:5:1: colour: /m);
  assert.match(
    broken.metrics,
    /^berth_condition\{kind="Upstream",name="acme",type="Stalled",status="True",reason="InvalidSpec"\} 1$/m,
  );
  const shown = (await runBerth(["upstream", "show", "acme"], env)).stdout;
  assert.match(shown, /^conditions:\n {2}Ready +False +InvalidSpec +.*acme\.yaml:5:1: colour: /m);
  assert.match(shown, /^ {2}Available +True +Serving /m);
  // Nobody who may not see manifests learns more than how many.
  assert.doesNotMatch(JSON.stringify(await berth.get("/api/health/system")), /acme|colour|upstreams\//);
  assert.equal((await chat(berth, "big"))[0], 200, "the last good spec serves on");

  const earlier = events.events.length;
  await writeFile(file, asks(double.baseUrl));
  await waitFor(berth, "health is ok again", []);
  await until("an event tells", () =>
    events.events
      .slice(earlier)
      .some(({ data }) => isOf("Upstream", "acme", "Serving")(data) && !isOf("Upstream", "acme", "InvalidSpec")(data)),
  );
  const mended = await told(berth);
  assert.match(mended.status, /, ok\n/);
  assert.match(mended.metrics, /^berth_condition\{kind="Upstream",name="acme",type="Ready",status="True",.* 1$/m);
  assert.doesNotMatch(mended.metrics, /InvalidSpec/);

  double.fail(...Array.from({ length: 5 }, () => ({ kind: "answer", status: 503 }) as const));
  for (let nth = 0; nth < 5; nth += 1) await chat(berth, "big");
  await waitFor(berth, "it is left alone", ["1 Upstream Degraded CircuitOpen"]);
  const failing = await told(berth);
  assert.match(failing.status, /^ {4}Upstream acme: Degraded CircuitOpen: it keeps failing/m);
  const circuit = 'kind="Upstream",name="acme",type="Available",status="False",reason="CircuitOpen"';
  assert.ok(failing.metrics.includes(`berth_condition{${circuit}} 1`), failing.metrics);
  assert.equal((await runBerth(["upstream", "check", "acme"], env)).code, 0);
  await waitFor(berth, "it is asked again", []);

  await rm(file);
  await events.find("condition", (data) => isRecord(data) && data["name"] === "acme" && data["removed"] === true);
});

test("manifests that were never valid, a ref declared twice, and a slot's refused edit are all reported by name and place", async () => {
  await using berth = await startBerth({
    async prepare({ configDir, modelsDir }) {
      await mkdir(join(configDir, "upstreams"));
      await mkdir(join(configDir, "models"));
      await writeFile(join(configDir, "models/good.toml"), `source = "file://${join(modelsDir, "good.gguf")}"\n`);
      await writeFile(join(modelsDir, "good.gguf"), ggufBytes());
      await writeFile(join(configDir, "slots/coder.toml"), 'enabled = false\nengine = "custom"\ncommand = ["serve"]\n');
    },
  });
  const env = { SVC_URL: berth.url };
  await until("the slot is known", async () => (await berth.slot("coder"))["state"] === "offline");
  await waitFor(berth, "nothing is wrong", []);
  await writeFile(join(berth.configDir, "upstreams/new.toml"), "base_url = 3\n");
  await writeFile(join(berth.configDir, "models/new.toml"), 'source = "file:///nowhere.gguf"\nsize = 3\n');
  await writeFile(join(berth.configDir, "models/gone.toml"), 'ref = "gone"\nsource = "file:///nowhere.gguf"\n');
  await writeFile(join(berth.configDir, "models/twin.toml"), 'ref = "gone"\nsource = "file:///nowhere.gguf"\n');
  await writeFile(join(berth.configDir, "models/no ref.toml"), 'source = "file:///nowhere.gguf"\n');
  await writeFile(join(berth.configDir, "slots/coder.toml"), 'enabled = false\nengine = "quantum"\n');
  await waitFor(berth, "all are counted", [
    "1 Upstream Stalled InvalidSpec",
    "1 Model Stalled InvalidSpec",
    "1 Model Stalled ModelFileMissing",
    "1 Model Stalled NameConflict",
    "1 Model Stalled InvalidName",
    "1 Slot Stalled InvalidSpec",
  ]);
  const { status, metrics } = await told(berth);
  assert.match(status, /^ {4}Slot coder: Stalled InvalidSpec: .*slots\/coder\.toml:2:1: engine: /m);
  assert.match(status, /^ {4}Model new: Stalled InvalidSpec: .*models\/new\.toml:2:1: size: /m);
  assert.match(status, /^ {4}Model gone: Stalled ModelFileMissing: .*nowhere\.gguf/m);
  assert.match(status, /^ {4}Model twin: Stalled NameConflict: .*twin\.toml: the ref gone belongs to Model gone$/m);
  assert.match(status, /^ {4}Model no ref: Stalled InvalidName: .*no ref\.toml: "no ref" cannot be a model's ref/m);
  assert.match(status, /^ {4}Upstream new: Stalled InvalidSpec: .*upstreams\/new\.toml:1:1: base_url: /m);
  assert.equal(metrics.match(/^berth_condition\{.*type="Stalled",status="True",.*\} 1$/gm)?.length, 6);
  assert.match((await runBerth(["model", "show", "new"], env)).stdout, /^ {2}Stalled +True +InvalidSpec /m);
  assert.match((await runBerth(["upstream", "list"], env)).stdout, /^new +not declared validly .*base_url: /m);

  for (const path of ["upstreams/new", "models/new"])
    assert.equal((await fetch(new URL(`/api/${path}`, berth.url), { method: "DELETE" })).status, 202, path);
  for (const name of ["models/gone", "models/twin", "models/no ref"]) await rm(join(berth.configDir, `${name}.toml`));
  await writeFile(
    join(berth.configDir, "slots/coder.toml"),
    'enabled = false\nengine = "custom"\ncommand = ["serve"]\n',
  );
  await waitFor(berth, "all have gone", []);
  const after = await told(berth);
  assert.deepEqual(after.metrics.match(/^berth_condition\{kind="(Model|Upstream)".*$/gm), [
    'berth_condition{kind="Model",name="good",type="Ready",status="True",reason="Available"} 1',
  ]);
  assert.match(after.status, /, ok\n/);
});
