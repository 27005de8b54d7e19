import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { format, resolveConfig } from "prettier";
import { kinds } from "../src/api/names.ts";
import { apiPage } from "./generate/api.ts";
import { commandLine } from "./generate/cli.ts";
import { crdText } from "./generate/crd.ts";
import { configSchema, tomlSchema, yamlSchema } from "./generate/editor-schema.ts";
import { dashboards } from "./monitoring/dashboards.ts";
import { grafanaJson } from "./monitoring/dashboard.ts";
import { healthVectors } from "./generate/health-vectors.ts";
import { metricsPage } from "./generate/metrics.ts";
import { reference } from "./generate/reference.ts";
import { withScopes } from "./generate/scopes.ts";
import { resources } from "./generate/resources.ts";
import { valuesSchema } from "./generate/values-schema.ts";

/**
 * `make generate` writes the files that follow from src/api and from the commands; `--check` names stale files and
 * exits 1.
 */

const header = "# Written by hack/generate.ts from src/api; change it there and run `make generate`.\n";

/** Every generated file by path from the repository's root, with its current content. */
export async function generated(root: string): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>([
    ["docs/reference.md", reference()],
    ["docs/cli.md", commandLine()],
    ["docs/api.md", apiPage()],
    ["docs/metrics.md", metricsPage()],
  ]);
  for (const dashboard of dashboards)
    texts.set(`manifests/monitoring/dashboards/${dashboard.name}.json`, grafanaJson(dashboard));
  for (const kind of kinds) {
    const name = kind.toLowerCase();
    const crd = `crds/berth.dev_${resources[kind].plural}.yaml`;
    texts.set(crd, header + crdText(kind));
    texts.set(`charts/berth/${crd}`, header + crdText(kind));
    texts.set(`manifests/schemas/${name}.yaml.schema.json`, JSON.stringify(yamlSchema(kind)));
    texts.set(`manifests/schemas/${name}.toml.schema.json`, JSON.stringify(tomlSchema(kind)));
  }
  texts.set("manifests/schemas/berth.schema.json", JSON.stringify(configSchema()));
  texts.set("charts/berth/values.schema.json", JSON.stringify(valuesSchema()));
  texts.set("manifests/gitops/argocd/health-vectors.yaml", healthVectors());
  // A chart has no files but its own.
  for (const name of ["alerts.yaml", "recording.yaml"])
    texts.set(
      `charts/berth/files/rules/${name}`,
      await readFile(join(root, "manifests/monitoring/rules", name), "utf8"),
    );
  texts.set("docs/security.md", await withScopes(await readFile(join(root, "docs/security.md"), "utf8")));
  const formatted = new Map<string, string>();
  for (const [path, text] of texts) {
    const filepath = join(root, path);
    formatted.set(path, await format(text, { ...(await resolveConfig(filepath)), filepath }));
  }
  return formatted;
}

/** The paths whose content is stale, missing files included. */
export async function stale(root: string, wanted: ReadonlyMap<string, string>): Promise<string[]> {
  const paths: string[] = [];
  for (const [path, text] of wanted) {
    const present = await readFile(join(root, path), "utf8").catch(() => undefined);
    if (present !== text) paths.push(path);
  }
  return paths;
}

if (import.meta.main) {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const wanted = await generated(root);
  const paths = await stale(root, wanted);
  if (process.argv.includes("--check")) {
    for (const path of paths) process.stderr.write(`${path} is stale; run make generate\n`);
    process.exitCode = paths.length === 0 ? 0 : 1;
  } else {
    for (const path of paths) {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), wanted.get(path) ?? "");
      process.stdout.write(`${path}\n`);
    }
  }
}
