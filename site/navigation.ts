/** A page of the menu by its file in the repository, or the pages of a folder under their own titles. */
export type Entry =
  { readonly text: string; readonly file: string } | { readonly text: string; readonly folder: string };

export interface Section {
  readonly text: string;
  readonly entries: readonly Entry[];
}

/**
 * The menu of the documentation site. A test compares it with `docs/`: each page there stands in it once. The pages of
 * a folder follow its README.
 */
export const navigation: readonly Section[] = [
  {
    text: "Quick start",
    entries: [
      { text: "A machine with a GPU", file: "docs/quick/gpu-box.md" },
      { text: "A laptop", file: "docs/quick/laptop.md" },
      { text: "Docker", file: "docs/quick/docker.md" },
      { text: "k3s", file: "docs/quick/k3s.md" },
      { text: "A clone", file: "docs/start.md" },
      { text: "Your first real model", file: "docs/first-model.md" },
      { text: "Moving in", file: "docs/moving.md" },
    ],
  },
  {
    text: "Concepts",
    entries: [
      { text: "Concepts", file: "docs/concepts.md" },
      { text: "Slots", file: "docs/slots.md" },
      { text: "Requests", file: "docs/requests.md" },
      { text: "Groups", file: "docs/groups.md" },
      { text: "Comparison", file: "docs/comparison.md" },
    ],
  },
  {
    text: "How-to: use",
    entries: [
      { text: "Dashboard and chat page", file: "docs/pages.md" },
      { text: "Clients", file: "docs/chat-clients.md" },
      { text: "Models", file: "docs/models.md" },
      { text: "Providers (upstreams)", file: "docs/upstreams.md" },
      { text: "Images", file: "docs/images.md" },
      { text: "Speech", file: "docs/audio.md" },
    ],
  },
  {
    text: "How-to: run",
    entries: [
      { text: "Installation", file: "docs/install.md" },
      { text: "Configuration", file: "docs/configuration.md" },
      { text: "Engines", file: "docs/engines.md" },
      { text: "Runtimes", file: "docs/runtimes.md" },
      { text: "Hardware", file: "docs/hardware.md" },
      { text: "Operations", file: "docs/operations.md" },
      { text: "Security", file: "docs/security.md" },
      { text: "Edge proxy", file: "docs/edge.md" },
      { text: "Monitoring", file: "docs/monitoring.md" },
      { text: "Runbooks", folder: "docs/runbooks" },
    ],
  },
  {
    text: "How-to: Kubernetes",
    entries: [
      { text: "Kubernetes", file: "docs/kubernetes.md" },
      { text: "Berth at home: k3s", file: "docs/homelab.md" },
    ],
  },
  {
    text: "Reference",
    entries: [
      { text: "Fields, settings, errors", file: "docs/reference.md" },
      { text: "API", file: "docs/api.md" },
      { text: "Command line", file: "docs/cli.md" },
      { text: "Metrics", file: "docs/metrics.md" },
      { text: "Contract", file: "docs/contract.md" },
      { text: "Performance", file: "docs/performance.md" },
      { text: "Changes", file: "CHANGELOG.md" },
    ],
  },
  {
    text: "For contributors",
    entries: [
      { text: "Contributing", file: "CONTRIBUTING.md" },
      { text: "For newcomers", file: "AGENTS.md" },
      { text: "Reporting a weakness", file: "SECURITY.md" },
      { text: "Architecture", file: "docs/architecture.md" },
      { text: "Testing", file: "docs/testing.md" },
      { text: "Releasing", file: "docs/releasing.md" },
      { text: "Dependencies", file: "docs/dependencies.md" },
      { text: "Decisions", file: "docs/decisions.md" },
      { text: "Decision records", folder: "docs/adr" },
    ],
  },
];
