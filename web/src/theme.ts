/** Dark or light: as the system says, or as was chosen here. */
import { Value } from "./store";

export type Theme = "system" | "light" | "dark";

const KEY = "sluice-theme";

function stored(): Theme {
  const value = localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : "system";
}

export const theme = new Value<Theme>(stored());

const system = matchMedia("(prefers-color-scheme: dark)");

export function isDark(): boolean {
  return theme.get() === "system" ? system.matches : theme.get() === "dark";
}

function apply(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
}

/** Changes each time the colours have changed. */
export const themeVersion = new Value(0);

function changed(): void {
  apply();
  themeVersion.set(themeVersion.get() + 1);
}

export function startTheme(): void {
  apply();
  system.addEventListener("change", changed);
  theme.subscribe(() => {
    if (theme.get() === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme.get());
    changed();
  });
}
