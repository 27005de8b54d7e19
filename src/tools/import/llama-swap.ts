import { dirname } from "node:path";
import { isRecord } from "../../lib/record.ts";
import { Omissions, type Imported, type ImportedSlot, type ImportedUpstream } from "./imported.ts";
import { groupingOf } from "./llama-swap-groups.ts";
import { expanded, macrosOf } from "./llama-swap-macros.ts";
import { swapModel, type SwapContext } from "./llama-swap-model.ts";
import { carried, readElsewhere, settingsOf, type Mapping } from "./mapping.ts";
import { nameFrom } from "./names.ts";
import { SourceFault, mapAt, parsedSource, sourceText, textsOf, type SourceDocument } from "./source-text.ts";

/** The settings of llama-swap itself. */
const mapping: Mapping = {
  ...readElsewhere("models peers macros groups matrix routing hooks healthCheckTimeout globalTTL unloadTimeout"),
  apiKeys: "keys are not carried: make one for each client by `berth token create`, with SVC_AUTH_ENABLED=1",
  startPort: "Berth takes ports from 8081 to 8099; SVC_SLOT_PORTS narrows them",
  logLevel: "SVC_LOG_LEVEL is Berth's",
  profiles: "an alias belongs to one slot: move it by an edit",
  selectors: "one name stands for one slot; replicas: N shares one name among equal engines",
};
const otherwise = "a setting of llama-swap's own, for which Berth has none";

/**
 * Reads a configuration of llama-swap (its config.example.yaml). Throws CommandError with file and line where the file is no
 * such configuration; a model that cannot be carried is in `omissions`.
 */
export async function importLlamaSwap(file: string, env: NodeJS.ProcessEnv): Promise<Imported> {
  const source = await parsedSource(file, await sourceText(file));
  const { value } = source;
  const models = value["models"] ?? (isRecord(value["peers"]) ? {} : undefined);
  if (!isRecord(models))
    throw new SourceFault({ file, line: 1 }, "it is no configuration of llama-swap: it has no map 'models'");
  const omissions = new Omissions();
  const settings = settingsOf(value, source).filter(({ key }) => !key.startsWith("x-"));
  carried(settings, mapping, { omissions, otherwise });
  const preload = new Set(textsOf(mapAt(value, "hooks", "on_startup")["preload"]));
  const { groups, groupOf, priorityOf } = groupingOf(source, Object.keys(models), omissions);
  const macros = macrosOf(value["macros"]);
  const slots: ImportedSlot[] = [];
  for (const [name, fields] of Object.entries(models)) {
    if (!isRecord(fields)) {
      omissions.add(source.at("models", name), `models.${name}`, "it is no map of fields");
      continue;
    }
    const made = swapModel(name, fields, {
      source,
      omissions,
      env,
      macros,
      directory: dirname(file),
      group: groupOf.get(name),
      isPreloaded: preload.has(name),
      priority: priorityOf.get(name),
    });
    if (made !== undefined) slots.push(made);
  }
  const used = new Set(slots.map(({ group }) => group));
  const upstreams = peersOf(source, { macros, env, omissions });
  return { slots, groups: groups.filter(({ name }) => used.has(name)), upstreams, omissions: omissions.sorted() };
}

/** The Upstreams of other servers (llama-swap, config.example.yaml, "peers"), to which it sends the paths of clients. */
function peersOf(
  source: SourceDocument,
  { macros, env, omissions }: Pick<SwapContext, "macros" | "env" | "omissions">,
): readonly ImportedUpstream[] {
  return Object.entries(mapAt(source.value, "peers")).map(([name, value]) => {
    const peer = mapAt(value);
    const { proxy, apiKey, models } = peer;
    const [, named] = /^\$\{env\.([A-Za-z_]\w*)\}$/.exec(String(apiKey)) ?? [];
    const variable = named ?? `${nameFrom(name).toUpperCase().replaceAll("-", "_")}_API_KEY`;
    const peerMapping: Mapping = {
      ...readElsewhere("proxy models"),
      apiKey: `its value is not carried: set it as ${variable} in the environment of the gateway`,
      timeouts: "an Upstream has others: connectSeconds, and timeoutSeconds between parts of an answer",
    };
    carried(settingsOf(peer, source, "peers", name), peerMapping, {
      omissions,
      otherwise: "an Upstream has no such setting",
    });
    return {
      name,
      spec: {
        baseUrl: `${expanded(String(proxy), macros, env)?.replace(/\/+$/, "")}/v1`,
        ...(apiKey === undefined ? {} : { auth: { type: "bearer", valueFrom: { env: variable } } }),
        models: textsOf(models ?? []).map((ref) => ({ ref: expanded(ref, macros, env) ?? ref })),
      },
    };
  });
}
