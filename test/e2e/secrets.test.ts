import assert from "node:assert/strict";
import { mkdir, open, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { errorCode } from "../../src/lib/error-code.ts";
import { startProvider } from "../doubles/provider.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { childOf, familyOf, wordsOf } from "../support/child-of.ts";
import { berthProcess } from "../support/command.ts";
import { operatorPid, readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));

/** A secret of every kind, planted wherever one may be given; none may be found anywhere else. */
const planted = {
  adminPassword: "canary-admin-password-0001",
  hubToken: "hf_canary0002canary0002canary",
  commandLineToken: `svc_canary22.${"canary3".repeat(6)}A`,
  wrongToken: `svc_canary33.${"canary4".repeat(6)}B`,
  providerKey: "sk-canary0005canary0005canary",
  engineSecret: "canary-engine-secret-0006",
  basicPassword: "canary-basic-password-0007",
  cookie: "canary-session-cookie-0008",
  prompt: "canary-prompt-0009",
  providerFile: "sk-canary0010canary0010canary",
  apiKeyHeader: "canary-x-api-key-0011",
  settingsFile: "canary-password-in-a-file-0012",
} as const;

test("no secret is in a log, an answer, a metric, a command line, another process or a file", async () => {
  await using provider = await startProvider({ key: "another-key-than-is-sent" });
  await using berth = await startBerth({
    env: {
      SVC_AUTH_ENABLED: "1",
      SVC_LOG_LEVEL: "trace",
      SVC_ADMIN_USER: "ada",
      SVC_ADMIN_PASSWORD: planted.adminPassword,
      SVC_TOKEN: planted.commandLineToken,
      HF_TOKEN: planted.hubToken,
      NODE_OPTIONS: `--import=${new URL("../support/crash.ts", import.meta.url).href}`,
      PROVIDER_KEY: planted.providerKey,
    },
    prepare: async ({ configDir, modelsDir }) => {
      const secret = join(modelsDir, "../engine-secret");
      await writeFile(secret, planted.engineSecret, { mode: 0o600 });
      const command = JSON.stringify([process.execPath, "--disable-warning=ExperimentalWarning", engine]);
      await writeFile(
        join(configDir, "slots/coder.toml"),
        `engine = "custom"\ncommand = ${command}\n[env]\nENGINE_SECRET = { valueFrom = { file = ${JSON.stringify(secret)} } }\n`,
      );
      await mkdir(join(configDir, "upstreams"));
      const providerKey = join(modelsDir, "../provider-key");
      await writeFile(providerKey, planted.providerFile, { mode: 0o600 });
      await writeFile(
        join(configDir, "upstreams/filed.yaml"),
        `baseUrl: ${provider.baseUrl}\nauth:\n  type: header\n  header: x-api-key\n  valueFrom:\n    file: ${providerKey}\nmodels:\n  - ref: filed\n`,
      );
      await writeFile(join(configDir, "berth.toml"), `admin_password = "${planted.settingsFile}"\n`);
      await writeFile(
        join(configDir, "upstreams/acme.yaml"),
        `baseUrl: ${provider.baseUrl}\nauth:\n  type: bearer\n  valueFrom:\n    env: PROVIDER_KEY\nmodels:\n  - ref: big\n`,
      );
    },
  });
  const published = await until("the engine is ready", async () => {
    const slot = await readPublished(berth.stateDir, "coder");
    return slot?.status?.state === "ready" ? slot : undefined;
  });
  const created = await berthProcess(["token", "create", "--label", "canary test", "--scope", "admin"], berth.env);
  const token = created.stdout.trim();
  const secrets = { ...planted, token: token.slice(13) };
  const answers = await everyAnswer(berth, token);
  for (const words of ["proxy render", "config show -o json", "status"]) {
    const { stdout, stderr } = await berthProcess(words.split(" "), berth.env);
    answers.push(stdout, stderr);
  }

  const pid = published.status?.processes[0]?.pid ?? 0;
  const environment = await readFile(`/proc/${pid}/environ`, "utf8");
  assert.ok(environment.includes(`ENGINE_SECRET=${planted.engineSecret}`), "the engine has what its manifest gives it");
  const { engineSecret: _, ...notForEngines } = secrets;
  for (const [name, secret] of Object.entries(notForEngines)) {
    assert.equal(environment.includes(secret), false, `${name} is in the engine's environment`);
  }
  const lines = familyOf(berth.child.pid ?? 0).map((each) => wordsOf(each).join(" "));
  assert.ok(lines.length >= 4, "up, operator, gateway and engine");
  const places: (readonly [place: string, text: string])[] = [
    ["the log", berth.log()],
    ["an answer", answers.join("\n")],
    ["a command line", lines.join("\n")],
    [
      "the provider's log of us",
      JSON.stringify(provider.asked.map(({ headers: { authorization: _key, "x-api-key": _other, ...rest } }) => rest)),
    ],
    ...(await filesOf(berth.stateDir)).map(({ path, text }) => [path, text] as const),
  ];
  await crashes(berth, published.status?.endpoint ?? "");
  // Hashes of tokens, and what engines say, which may be prompts, are for their owner and his group at most.
  const closed: string[] = [];
  for (const name of ["auth", "logs"]) {
    for (const { path, mode } of await filesOf(join(berth.stateDir, name))) {
      closed.push(path);
      assert.equal(mode & 0o007, 0, `others may read ${path}`);
    }
  }
  assert.ok(closed.some((path) => path.endsWith("coder.main.log")) && closed.length >= 2, closed.join());
  for (const { path, text, mode } of await filesOf(berth.stateDir)) {
    if (!text.includes(lastOutput)) continue;
    closed.push(path);
    assert.equal(mode & 0o007, 0, `others may read in ${path} what an engine said last`);
  }
  assert.ok(
    closed.some((path) => path.endsWith("slots/coder.json")),
    "its last output is published",
  );
  const defect = "a defect that nobody has caught";
  const told = await berthProcess(["status"], { ...berth.env, SVC_URL: berth.url, CRASH_ON_CONNECT: "1" });
  assert.ok(told.stderr.includes(defect), told.stderr);
  places.push(["what a command says that crashes", told.stdout + told.stderr]);
  for (const pid of [childOf(berth.child, "serve"), operatorPid(berth)]) {
    const before = berth.log().split(defect).length;
    // Underway when it ends: whatever it knows then may be in what is said of its end.
    const lost = fetch(new URL("/v1/chat/completions", berth.url), {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, cookie: planted.cookie, "content-type": "application/json" },
      body: JSON.stringify({ model: "big", messages: [{ role: "user", content: planted.prompt }] }),
    }).catch(() => undefined);
    process.kill(pid, "SIGUSR2");
    await until("its crash is told", () => berth.log().split(defect).length > before);
    await lost;
  }
  await berth.stop("SIGTERM");
  places.push(["the log to its end", berth.log()]);
  for (const { path, text } of await filesOf(berth.stateDir)) places.push([path, text]);
  // What is looked through is what it is meant to be.
  assert.match(answers.join("\n"), /"label":"canary test"/);
  await until("the log tells of it", async () => /coder: ready/.test(berth.log()));
  assert.ok(places.some(([place]) => place.endsWith(`auth/tokens/${token.slice(4, 12)}.json`)));
  for (const [place, text] of places) {
    for (const [name, secret] of Object.entries(secrets)) {
      assert.equal(text.includes(secret), false, `${name} is in ${place}`);
      assert.equal(text.includes(Buffer.from(secret).toString("base64")), false, `${name} is in ${place} as base64`);
    }
  }
});

/** What an engine says before it ends: whatever it knows. */
const lastOutput = "canary-last-output-0013";

/** Makes it say that and end; no client without credentials sees it. */
async function crashes(berth: RunningBerth, endpoint: string): Promise<void> {
  const post = (path: string, body: string): Promise<unknown> =>
    fetch(new URL(path, endpoint), { method: "POST", body }).then((answer) => answer.text());
  await post("/double/log", lastOutput);
  await post("/double/exit", "3").catch(() => undefined);
  await until("its end is published", async () => {
    const slot = await readPublished(berth.stateDir, "coder");
    return slot?.status.lastError?.message.includes(lastOutput) === true;
  });
  for (const path of ["/api/status", "/api/health/system", "/metrics", "/v1/models", "/", "/api/slots/coder"]) {
    const answer = await (await fetch(new URL(path, berth.url))).text();
    assert.ok(answer !== "" && !answer.includes(lastOutput), path);
  }
}

/** Good and bad requests of every kind; what came back, headers and all. */
async function everyAnswer(berth: RunningBerth, token: string): Promise<string[]> {
  const answers: string[] = [];
  const good = { authorization: `Bearer ${token}` };
  const wrong = { authorization: `Bearer ${planted.wrongToken}` };
  const basic = { authorization: `Basic ${Buffer.from(`ada:${planted.basicPassword}`).toString("base64")}` };
  const common = {
    cookie: `session=${planted.cookie}`,
    "x-api-key": planted.apiKeyHeader,
    "content-type": "application/json",
  };
  const message = [{ role: "user", content: planted.prompt }];
  const bodies = [
    { model: "coder", messages: message },
    { model: "coder", messages: message, stream: true },
    { model: "big", messages: message },
    { model: "filed", messages: message },
    { model: "nothing", messages: message },
    { messages: message },
  ].map((body) => JSON.stringify(body));
  const get = [
    "/api/slots",
    "/api/slots/coder",
    "/api/slots/coder/plan",
    "/api/slots/coder/logs",
    "/api/models",
    "/api/status",
    "/api/health/system",
    "/api/auth/me",
    "/api/auth/tokens",
    "/api/auth/status",
    "/api/config",
    "/api/upstreams",
    "/v1/models",
    "/metrics",
    "/",
    "/api/nothing",
    `/api/slots?token=${planted.wrongToken}x`,
  ];
  for (const credentials of [good, wrong, basic, {}]) {
    const ask = async (path: string, init: RequestInit = {}): Promise<void> => {
      const answer = await fetch(new URL(path, berth.url), { ...init, headers: { ...common, ...credentials } });
      answers.push(JSON.stringify([...answer.headers]), await answer.text());
    };
    for (const path of get) await ask(path);
    for (const body of [...bodies, `{"model": "coder", "messages": "${planted.prompt}`, `"${planted.prompt}"`]) {
      await ask("/v1/chat/completions", { method: "POST", body });
    }
    await ask("/api/auth/tokens", {
      method: "POST",
      body: JSON.stringify({ label: planted.prompt, scope: planted.cookie }),
    });
  }
  answers.push(await (await fetch(`${berth.operatorUrl}/metrics`)).text());
  return answers;
}

interface ReadFile {
  readonly path: string;
  readonly text: string;
  readonly mode: number;
}

/** Every file below, whoever may read it. Those that are being written have another name a moment later. */
async function filesOf(directory: string): Promise<ReadFile[]> {
  const files: ReadFile[] = [];
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const file = entry.isFile() ? await readWithMode(path).catch(unlessGone) : undefined;
    if (file !== undefined) files.push(file);
  }
  return files;
}

/** Through one handle: a file that is removed meanwhile is read to its end all the same. */
async function readWithMode(path: string): Promise<ReadFile> {
  await using file = await open(path);
  return { path, text: await file.readFile("latin1"), mode: (await file.stat()).mode };
}

function unlessGone(error: unknown): undefined {
  if (errorCode(error) !== "ENOENT") throw error;
}
