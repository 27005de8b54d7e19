import { fileURLToPath } from "node:url";
import { apiVersion } from "../../../src/api/names.ts";
import { openApiClient, type ApiClient } from "../../../src/kubernetes/client.ts";
import { readKubeconfig } from "../../../src/kubernetes/kubeconfig.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { until } from "../until.ts";
import type { ApiServer } from "./control-plane.ts";

const engine = fileURLToPath(new URL("../../doubles/engine.ts", import.meta.url));

/** The command of a slot's engine, which is a double. */
export const engineCommand = (...flags: readonly string[]): readonly string[] => [
  process.execPath,
  "--disable-warning=ExperimentalWarning",
  engine,
  ...flags,
];

/** A namespace whose Slots a whole Berth follows. */
export interface SlotSite extends AsyncDisposable {
  readonly namespace: string;
  /** Settings of operators and gateways of this namespace. */
  readonly env: NodeJS.ProcessEnv;
  readonly client: ApiClient;
  apply(name: string, spec: object): Promise<void>;
  status(name: string): Promise<Readonly<Record<string, unknown>>>;
  /** Waits until the slot is ready; the process id of its engine. */
  pid(name: string): Promise<number>;
}

/** `kubeconfig`: what operators and gateways use, by default the test's own. */
export async function openSlotSite(
  plane: ApiServer,
  { kubeconfig = plane.kubeconfig, namespace: given }: { kubeconfig?: string; namespace?: string } = {},
): Promise<SlotSite> {
  const namespace = given ?? (await plane.namespace());
  const client = openApiClient(await readKubeconfig({ KUBECONFIG: plane.kubeconfig, POD_NAMESPACE: namespace }));
  const path = `/apis/${apiVersion}/namespaces/${namespace}/slots`;
  const status = async (name: string): Promise<Readonly<Record<string, unknown>>> => {
    const found = await client.request("GET", `${path}/${name}`);
    return isRecord(found) && isRecord(found["status"]) ? found["status"] : {};
  };
  return {
    namespace,
    // Most engines of these tests are doubles: processes of this machine.
    env: { SVC_STORE: "kubernetes", SVC_ALLOW_PROCESSES: "1", KUBECONFIG: kubeconfig, POD_NAMESPACE: namespace },
    client,
    async apply(name, content) {
      const body = { apiVersion, kind: "Slot", metadata: { name }, spec: content };
      const query = { fieldManager: "person", force: true };
      await client.request("PATCH", `${path}/${name}`, { query, body, contentType: "application/apply-patch+yaml" });
    },
    status,
    pid: async (name) =>
      await until(`${name} is ready`, async () => {
        const { state, processes } = await status(name);
        const [first]: readonly unknown[] = Array.isArray(processes) ? processes : [];
        return state === "ready" && isRecord(first) && typeof first["pid"] === "number" ? first["pid"] : undefined;
      }),
    [Symbol.asyncDispose]: () => Promise.resolve(client[Symbol.dispose]()),
  };
}
