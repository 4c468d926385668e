// Package charttools keeps in go.mod what `controller-gen` reads: the types of ServiceMonitor and PrometheusRule.
package charttools

import _ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
