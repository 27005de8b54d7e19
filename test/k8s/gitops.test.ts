import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { parse, parseAllDocuments } from "yaml";
import { z } from "zod";
import { configShape } from "../../src/api/config.ts";
import { chartDirectory, helm } from "../support/kube/helm.ts";
import { kubeProgram } from "../support/kube/programs.ts";
import { tempDir } from "../support/temp-dir.ts";

const manifests = fileURLToPath(new URL("../../manifests", import.meta.url));
const read = async (path: string): Promise<string> => await readFile(join(manifests, path), "utf8");
const object = z.looseObject({ kind: z.string(), metadata: z.looseObject({ name: z.string() }) });

let home: Awaited<ReturnType<typeof tempDir>>;
before(async () => {
  home = await tempDir();
});
after(() => home[Symbol.asyncDispose]());

function namesIn(text: string): readonly string[] {
  return parseAllDocuments(text).flatMap((document) => {
    const found = object.safeParse(document.toJS()).data;
    return found === undefined ? [] : [`${found.kind}/${found.metadata.name}`];
  });
}

/** What the chart makes of the values of an example: its schema refuses a wrong one. No cluster is asked. */
async function rendered(values: object): Promise<readonly string[]> {
  const site = { directory: home.path, kubeconfig: join(home.path, "none") };
  return namesIn(await helm(site, ["template", "berth", chartDirectory], values));
}

it("manifests/k3s is rendered by kubectl kustomize, CRDs and slots included", async () => {
  const program = process.env["BERTH_TEST_HELM"] ?? "helm";
  const args = ["kustomize", "--enable-helm", `--helm-command=${program}`, join(manifests, "k3s")];
  const env = { ...process.env, HOME: home.path };
  const names = namesIn((await promisify(execFile)(kubeProgram("kubectl"), args, { env })).stdout);
  for (const name of [
    "Namespace/ai",
    "CustomResourceDefinition/slots.berth.dev",
    "Deployment/berth",
    "Deployment/berth-operator",
    "Ingress/berth",
    "SlotGroup/gpu",
    "Slot/chat",
    "Slot/embeddings",
    "Model/qwen3-8b",
  ])
    assert.ok(names.includes(name), `${name} is not in ${names.join(" ")}`);
  assert.ok(!names.some((name) => name.startsWith("Job/") || name === "Pod/berth-test"), names.join(" "));
});

it("the examples for Flux and Argo CD have values that the chart takes", async () => {
  const release = z.looseObject({ kind: z.literal("HelmRelease"), spec: z.looseObject({ values: z.looseObject({}) }) });
  const [flux] = parseAllDocuments(await read("gitops/flux.yaml")).flatMap(
    (document) => release.safeParse(document.toJS()).data ?? [],
  );
  assert.ok((await rendered(flux?.spec.values ?? {})).includes("Slot/chat"));
  const application = z.object({
    spec: z.object({ source: z.object({ helm: z.object({ valuesObject: z.looseObject({}) }) }) }),
  });
  const { spec } = application.parse(parse(await read("gitops/argocd/application.yaml")));
  assert.ok((await rendered(spec.source.helm.valuesObject)).includes("Slot/chat"));
});

describe("a request through an Ingress", () => {
  const holdSeconds = configShape.holdSeconds.parse(undefined);
  const bodyLimit = configShape.bodyLimit.parse(undefined);
  const seconds = z
    .string()
    .regex(/^\d+s?$/)
    .transform((text) => Number.parseInt(text, 10));

  it("of ingress-nginx waits for a cold slot, brings a body as large as Berth takes, and is not buffered", async () => {
    const site = { directory: home.path, kubeconfig: join(home.path, "none") };
    const values = ["--values", join(manifests, "nginx/ingress-values.yaml")];
    const ingress = z.looseObject({
      kind: z.literal("Ingress"),
      metadata: z.object({ annotations: z.record(z.string(), z.string()) }),
      spec: z.looseObject({ ingressClassName: z.literal("nginx") }),
    });
    const text = await helm(site, ["template", "berth", chartDirectory, ...values]);
    const [found] = parseAllDocuments(text).flatMap((document) => ingress.safeParse(document.toJS()).data ?? []);
    const of = (name: string): string => found?.metadata.annotations[`nginx.ingress.kubernetes.io/${name}`] ?? "";
    for (const name of ["proxy-read-timeout", "proxy-send-timeout"])
      assert.ok(seconds.parse(of(name)) > holdSeconds, name);
    assert.equal(of("proxy-body-size"), `${bodyLimit / 1024 ** 2}m`);
    assert.deepEqual([of("proxy-buffering"), of("proxy-request-buffering")], ["off", "off"]);
  });

  it("of the Traefik of k3s may be read for longer than a cold slot takes", async () => {
    const config = z.object({
      kind: z.literal("HelmChartConfig"),
      metadata: z.object({ name: z.literal("traefik"), namespace: z.literal("kube-system") }),
      spec: z.object({ valuesContent: z.string() }),
    });
    const timeouts = z.object({ readTimeout: seconds, writeTimeout: z.literal("0s"), idleTimeout: seconds });
    const port = z.object({ transport: z.object({ respondingTimeouts: timeouts }) });
    const { spec } = config.parse(parse(await read("k3s/traefik.yaml")));
    const { ports } = z.object({ ports: z.object({ web: port, websecure: port }) }).parse(parse(spec.valuesContent));
    for (const { transport } of Object.values(ports)) assert.ok(transport.respondingTimeouts.readTimeout > holdSeconds);
  });
});

/** A value as a Lua expression. */
function lua(value: unknown): string {
  if (Array.isArray(value)) return `{${value.map(lua).join(",")}}`;
  if (typeof value === "object" && value !== null)
    return `{${Object.entries(value)
      .map(([key, each]) => `[${JSON.stringify(key)}]=${lua(each)}`)
      .join(",")}}`;
  return JSON.stringify(value);
}

const interpreter = "lua5.4";
const hasLua = spawnSync(interpreter, ["-v"]).status === 0;

describe(
  "the health check for Argo CD",
  { skip: hasLua ? false : "lua5.4 is not here: apt-get install lua5.4" },
  () => {
    it("has the expected verdict for every vector", async () => {
      const vectors = z
        .array(z.strictObject({ name: z.string(), object: z.looseObject({}), health: z.string() }))
        .parse(parse(await read("gitops/argocd/health-vectors.yaml")));
      const check = await read("gitops/argocd/health.lua");
      const said = vectors.map(({ name, object: obj }) => {
        const input = `local obj = ${lua(obj)}\nlocal function check()\n${check}\nend\nio.write(check().status)\n`;
        const { stdout, stderr } = spawnSync(interpreter, ["-"], { input, encoding: "utf8" });
        return { name, health: stdout === "" ? stderr : stdout };
      });
      assert.deepEqual(
        said,
        vectors.map(({ name, health }) => ({ name, health })),
      );
    });
  },
);
