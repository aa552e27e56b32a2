import { render } from "preact";
import { App } from "./app";
import { start } from "./live";
import { startTheme } from "./theme";
import "./style.css";

startTheme();
start();
const root = document.getElementById("page");
if (root !== null) render(<App />, root);
