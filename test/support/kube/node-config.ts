import { join } from "node:path";
import { serviceNetwork } from "./control-plane.ts";

interface KubeletFiles {
  readonly directory: string;
  readonly socket: string;
  readonly caFile: string;
  readonly certificate: { readonly cert: string; readonly key: string };
}

/** The only node, and how its parts are configured. The bridge carries the node's address. */
export const nodeConfig = {
  bridge: "berth-kube",
  address: "10.244.0.1",
  pods: "10.244.0.0/24",
  pauseImage: "localhost/pause:1",

  network(directory: string): string {
    return JSON.stringify({
      cniVersion: "0.4.0",
      name: "pods",
      plugins: [
        {
          type: "bridge",
          bridge: this.bridge,
          isGateway: true,
          ipMasq: false,
          hairpinMode: true,
          ipam: {
            type: "host-local",
            dataDir: join(directory, "addresses"),
            ranges: [[{ subnet: this.pods, rangeStart: "10.244.0.10", gateway: this.address }]],
            routes: [{ dst: "0.0.0.0/0" }],
          },
        },
        { type: "portmap", capabilities: { portMappings: true } },
      ],
    });
  },

  containerd(directory: string, socket: string): string {
    const disabled = ["btrfs", "zfs", "aufs", "devmapper"].map((name) => `io.containerd.snapshotter.v1.${name}`);
    const cri = 'plugins."io.containerd.grpc.v1.cri"';
    return [
      "version = 2",
      `root = "${directory}/containerd/root"`,
      `state = "${directory}/containerd/state"`,
      `disabled_plugins = ${JSON.stringify(disabled)}`,
      "[grpc]",
      `address = "${socket}"`,
      '[plugins."io.containerd.internal.v1.opt"]',
      `path = "${directory}/containerd/opt"`,
      `[${cri}]`,
      `sandbox_image = "${this.pauseImage}"`,
      // Containers of machines may not lower their score for the out-of-memory killer.
      "restrict_oom_score_adj = true",
      'stream_server_address = "127.0.0.1"',
      `[${cri}.cni]`,
      'bin_dir = "/usr/lib/cni"',
      `conf_dir = "${directory}/cni"`,
      `[${cri}.containerd]`,
      'snapshotter = "overlayfs"',
      `[${cri}.containerd.runtimes.runc]`,
      'runtime_type = "io.containerd.runc.v2"',
      `[${cri}.containerd.runtimes.runc.options]`,
      "SystemdCgroup = false",
      "",
    ].join("\n");
  },

  kubelet({ directory, socket, caFile, certificate }: KubeletFiles): object {
    return {
      apiVersion: "kubelet.config.k8s.io/v1beta1",
      kind: "KubeletConfiguration",
      address: "0.0.0.0",
      authentication: { anonymous: { enabled: false }, webhook: { enabled: true }, x509: { clientCAFile: caFile } },
      authorization: { mode: "Webhook" },
      tlsCertFile: certificate.cert,
      tlsPrivateKeyFile: certificate.key,
      cgroupDriver: "cgroupfs",
      containerRuntimeEndpoint: `unix://${socket}`,
      podCIDR: this.pods,
      resolvConf: "/etc/resolv.conf",
      clusterDomain: "cluster.local",
      clusterDNS: [serviceNetwork.apiServer.replace(/1$/, "10")],
      failSwapOn: false,
      failCgroupV1: false,
      oomScoreAdj: 0,
      enforceNodeAllocatable: [],
      makeIPTablesUtilChains: false,
      evictionHard: {
        "memory.available": "100Mi",
        "nodefs.available": "1%",
        "nodefs.inodesFree": "1%",
        "imagefs.available": "1%",
      },
      imageGCHighThresholdPercent: 100,
      serializeImagePulls: false,
      syncFrequency: "10s",
      nodeStatusUpdateFrequency: "5s",
      volumePluginDir: join(directory, "kubelet", "volumeplugins"),
      podLogsDir: join(directory, "podlogs"),
    };
  },
};
