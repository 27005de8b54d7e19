import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { kubeconfigText, type ControlPlane } from "./control-plane.ts";

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** What docs/kubernetes.md says that operator and gateway need together for the store. */
export const storeRights: readonly Rule[] = [
  {
    apiGroups: ["berth.dev"],
    resources: ["slots", "models", "upstreams", "slotgroups"],
    verbs: ["get", "list", "watch", "patch", "create", "update", "delete"],
  },
  {
    apiGroups: ["berth.dev"],
    resources: ["slots/status", "models/status", "upstreams/status", "slotgroups/status"],
    verbs: ["patch"],
  },
  {
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    verbs: ["get", "list", "watch", "create", "update", "patch", "delete"],
  },
  { apiGroups: [""], resources: ["configmaps"], verbs: ["get", "list", "watch", "create", "update", "patch"] },
  {
    apiGroups: [""],
    resources: ["secrets"],
    resourceNames: ["berth-tokens", "berth-bearers"],
    verbs: ["get", "list", "watch", "patch"],
  },
  { apiGroups: [""], resources: ["secrets"], verbs: ["create"] },
  { apiGroups: [""], resources: ["namespaces"], verbs: ["get"] },
  { apiGroups: [""], resources: ["events"], verbs: ["create", "patch"] },
];

export interface Account {
  readonly kubeconfig: string;
  readonly namespace: string;
}

/** A service account with these rights in a namespace of its own, and its kubeconfig. */
export async function accountWith(plane: ControlPlane, rules: readonly Rule[]): Promise<Account> {
  const namespace = await plane.namespace();
  const role = { apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", metadata: { name: "berth" }, rules };
  await plane.kubectl(["apply", "-n", namespace, "-f", "-"], JSON.stringify(role));
  await plane.kubectl(["create", "serviceaccount", "-n", namespace, "berth"]);
  const binding = ["create", "rolebinding", "-n", namespace, "berth", "--role=berth"];
  await plane.kubectl([...binding, `--serviceaccount=${namespace}:berth`]);
  const token = (await plane.kubectl(["create", "token", "-n", namespace, "berth"])).trim();
  const kubeconfig = join(plane.directory, `${namespace}.kubeconfig`);
  await writeFile(kubeconfig, kubeconfigText(plane.url, plane.caFile, token, namespace));
  return { kubeconfig, namespace };
}
